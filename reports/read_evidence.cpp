#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/file.h"
#include "reports/envelope_json.h"
#include "reports/evidence.h"
#include "reports/json_writer.h"
#include "reports/read_train.h"
#include "reports/scale_json.h"

namespace nqd::reports {
namespace {

// null in a document: the figure was not finite when it was written.
constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();

template <typename Value>
Value parsed(const JsonField& field, std::optional<Value> (*parse)(std::string_view)) {
  const std::optional<Value> value = parse(field.text());
  if (!value) field.fail("has an unknown value \"" + field.text() + "\"");
  return *value;
}

std::vector<double> read_samples(const JsonField& array) {
  std::vector<double> samples;
  for (const JsonField& item : array.items()) samples.push_back(item.number());
  if (samples.empty()) array.fail("is empty: a row is computed from its samples");
  return samples;
}

// A member that is computed from samples_s: percentile `q`. A figure that its samples do not give
// was edited, and nothing may be concluded from it.
double read_percentile(const JsonField& row, std::string_view key,
                       const std::vector<double>& samples, double q) {
  constexpr double kTolerance = 1e-9;  // of the text's rounding, not of the measurement
  const JsonField field = row.at(key);
  const double claimed = field.number();
  const double computed = collectives::percentile(samples, q);
  if (std::abs(claimed - computed) > kTolerance * std::abs(computed)) {
    field.fail("is " + json_number(claimed) + ", but its samples_s give " + json_number(computed),
               "the document was edited or damaged; measure again");
  }
  return claimed;
}

template <typename Integer>
Integer integer_or_zero(const JsonField& object, std::string_view key) {
  const auto member = object.find(key);
  return member ? member->integer<Integer>() : Integer{0};
}

collectives::BenchOptions read_options(const JsonField& json) {
  collectives::BenchOptions options;
  if (const auto pair = json.find("pair")) {
    const std::vector<JsonField> ranks = pair->items();
    if (ranks.size() != 2) pair->fail("must name two ranks");
    options.pair = {ranks[0].integer<int>(), ranks[1].integer<int>()};
    options.collective = collectives::Collective::kSendRecv;
  } else {
    options.collective = parsed(json.at("collective"), collectives::parse_collective);
  }
  options.algorithms.clear();
  for (const JsonField& item : json.at("algorithms").items()) {
    options.algorithms.push_back(parsed(item, collectives::parse_algorithm));
  }
  options.dtype = parsed(json.at("dtype"), parse_dtype);
  options.op = parsed(json.at("op"), collectives::parse_reduce_op);
  options.begin_bytes = json.at("begin_bytes").integer<std::uint64_t>();
  options.end_bytes = json.at("end_bytes").integer<std::uint64_t>();
  options.factor = json.at("factor").number();
  options.step_bytes = json.at("step_bytes").integer<std::uint64_t>();
  options.warmup = json.at("warmup").integer<int>();
  options.iterations = json.at("iterations").integer<int>();
  options.check = json.at("check").boolean();
  options.in_place = json.at("in_place").boolean();
  if (const auto time = json.find("time_s")) options.time_s = time->number();
  if (const auto repeat = json.find("repeat")) options.repeat = repeat->integer<int>();
  if (const auto seed = json.find("seed")) options.seed = seed->integer<std::uint64_t>();
  if (const auto cold = json.find("cold")) options.cold = cold->boolean();
  options.cache_bytes = integer_or_zero<std::uint64_t>(json, "cache_bytes");
  options.root = integer_or_zero<int>(json, "root");
  return options;
}

collectives::BenchRow read_row(const JsonField& json) {
  collectives::BenchRow row;
  row.collective = json.at("collective").text();
  row.backend = json.at("backend").text();
  row.transport = json.at("transport").text();
  row.algorithm = json.at("algorithm").text();
  const auto requested = json.find("requested_algorithm");
  row.requested_algorithm = requested ? requested->text() : row.algorithm;
  row.in_place = json.at("in_place").boolean();
  row.registered = json.at("registered").boolean();
  row.dtype = json.at("dtype").text();
  row.op = json.at("op").text();
  // Earlier documents do not say: they had no other.
  if (const auto numerics = json.find("numerics")) row.numerics = numerics->text();
  row.requested_bytes = json.at("requested_bytes").integer<std::uint64_t>();
  row.effective_bytes = json.at("effective_bytes").integer<std::uint64_t>();
  row.ranks = json.at("ranks").integer<int>();
  row.samples_s = read_samples(json.at("samples_s"));
  row.min_s = read_percentile(json, "min_s", row.samples_s, 0);
  row.p50_s = read_percentile(json, "p50_s", row.samples_s, 0.5);
  row.p95_s = read_percentile(json, "p95_s", row.samples_s, 0.95);
  row.p99_s = read_percentile(json, "p99_s", row.samples_s, 0.99);
  row.max_s = read_percentile(json, "max_s", row.samples_s, 1);
  if (const auto medians = json.find("repeat_p50_s")) {
    for (const JsonField& median : medians->items()) row.repeat_p50_s.push_back(median.number());
  }
  row.copies = std::max(1, integer_or_zero<int>(json, "copies"));
  row.algbw_gbps = json.at("algbw_gbps").number_or(kNotFinite);
  row.busbw_gbps = json.at("busbw_gbps").number_or(kNotFinite);
  row.checked = json.at("checked").boolean();
  row.wrong = integer_or_zero<std::uint64_t>(json, "wrong");
  row.bytes_sent_per_rank = integer_or_zero<std::uint64_t>(json, "bytes_sent_per_rank");
  row.predicted_bytes_per_rank = integer_or_zero<std::uint64_t>(json, "predicted_bytes_per_rank");
  return row;
}

collectives::GemmRow read_gemm_row(const JsonField& json) {
  std::vector<double> samples = read_samples(json.at("samples_s"));
  const double p50_s = read_percentile(json, "p50_s", samples, 0.5);
  return {.m = json.at("m").integer<std::int64_t>(),
          .n = json.at("n").integer<std::int64_t>(),
          .k = json.at("k").integer<std::int64_t>(),
          .layout = json.at("layout").text(),
          .library = json.at("library").text(),
          .threads = json.at("threads").integer<int>(),
          .samples_s = std::move(samples),
          .p50_s = p50_s,
          .gflops = json.at("gflops").number_or(kNotFinite)};
}

collectives::KernelRow read_kernel_row(const JsonField& json) {
  std::vector<double> samples = read_samples(json.at("samples_s"));
  const double p50_s = read_percentile(json, "p50_s", samples, 0.5);
  return {.kernel = json.at("kernel").text(),
          .m = json.at("m").integer<std::int64_t>(),
          .n = json.at("n").integer<std::int64_t>(),
          .k = json.at("k").integer<std::int64_t>(),
          .items = json.at("items").number(),
          .units = json.at("units").number(),
          .calls = json.at("calls").number(),
          .numerics = json.at("numerics").text(),
          .precision = json.at("precision").text(),
          .threads = json.at("threads").integer<int>(),
          .ranks = json.at("ranks").integer<int>(),
          .cpus = json.at("cpus").integer<int>(),
          .samples_s = std::move(samples),
          .p50_s = p50_s};
}

collectives::BenchResult read_bench(const JsonField& json) {
  collectives::BenchResult result;
  result.options = read_options(json.at("options"));
  for (const JsonField& row : json.at("rows").items()) result.rows.push_back(read_row(row));
  for (const JsonField& row : json.at("gemm_rows").items()) {
    result.gemm_rows.push_back(read_gemm_row(row));
  }
  // Documents of nqd 0.1 had none.
  if (const auto kernels = json.find("kernel_rows")) {
    for (const JsonField& row : kernels->items()) {
      result.kernel_rows.push_back(read_kernel_row(row));
    }
  }
  result.memory_bandwidth_bytes_per_s = json.at("memory_bandwidth_bytes_per_s").number_or(0);
  result.verdicts = read_verdicts(json);
  return result;
}

planner::CalibratedCurve read_curve(const JsonField& json) {
  planner::CalibratedCurve curve;
  curve.collective = json.at("collective").text();
  curve.algorithm = json.at("algorithm").text();
  curve.ranks = json.at("ranks").integer<std::int64_t>();
  for (const JsonField& piece : json.at("pieces").items()) {
    curve.pieces.push_back({.from_bytes = piece.at("from_bytes").number(),
                            .to_bytes = piece.at("to_bytes").number(),
                            .alpha_s = piece.at("alpha_s").number(),
                            .beta_s_per_byte = piece.at("beta_s_per_byte").number()});
  }
  curve.inside_node = json.at("inside_node").boolean();
  curve.max_residual_fraction = json.at("max_residual_fraction").number_or(kNotFinite);
  if (const auto bytes = json.find("break_bytes")) curve.break_bytes = bytes->number();
  if (const auto held_out = json.find("held_out_fraction")) {
    curve.held_out_fraction = held_out->number();
  }
  if (const auto points = json.find("points")) {
    for (const JsonField& point : points->items()) {
      curve.points.push_back({point.at("bytes").number(), point.at("seconds").number()});
    }
  }
  return curve;
}

planner::Crossovers read_crossovers(const JsonField& json) {
  planner::Crossovers row;
  row.collective = json.at("collective").text();
  row.ranks = json.at("ranks").integer<std::int64_t>();
  row.inside_node = json.at("inside_node").boolean();
  row.backend = json.at("backend").text();
  row.registered = json.at("registered").boolean();
  for (const JsonField& choice : json.at("choices").items()) {
    row.choices.push_back({choice.at("from_bytes").number(), choice.at("algorithm").text()});
  }
  return row;
}

planner::EngineRates read_engine_rates(const JsonField& json) {
  planner::EngineRates rates;
  rates.precision =
      planner::parse_precision(json.at("precision").text()).value_or(planner::Precision::kFloat32);
  rates.numerics = collectives::parse_numerics(json.at("numerics").text())
                       .value_or(collectives::Numerics::kCanonical);
  rates.threads = json.at("threads").integer<std::int64_t>();
  rates.ranks = json.at("ranks").integer<std::int64_t>();
  rates.cpus = json.at("cpus").integer<std::int64_t>();
  rates.in_place = json.at("in_place").number();
  for (const JsonField& kernel : json.at("kernels").items()) {
    rates.kernels.push_back(
        {kernel.at("kernel").text(), kernel.at("item_s").number(), kernel.at("unit_s").number()});
  }
  return rates;
}

planner::Calibration read_calibration_document(const JsonField& json) {
  planner::Calibration calibration;
  for (const JsonField& curve : json.at("curves").items()) {
    calibration.curves.push_back(read_curve(curve));
  }
  if (const auto crossovers = json.find("crossovers")) {
    for (const JsonField& row : crossovers->items()) {
      calibration.crossovers.push_back(read_crossovers(row));
    }
  }
  if (const auto rates = json.find("engine_rates")) {
    for (const JsonField& row : rates->items()) {
      calibration.engine_rates.push_back(read_engine_rates(row));
    }
  }
  calibration.gemm_flops = json.at("gemm_flops").number_or(0);
  calibration.memory_bandwidth_bytes_per_s = json.at("memory_bandwidth_bytes_per_s").number_or(0);
  calibration.source = json.at("source").text();
  return calibration;
}

std::vector<MachineCheck> read_checks(const JsonField& json) {
  std::vector<MachineCheck> checks;
  for (const JsonField& check : json.at("checks").items()) {
    checks.push_back({.name = check.at("name").text(),
                      .status = check.at("status").text(),
                      .detail = check.at("detail").text(),
                      .advice = check.at("advice").text_or("")});
  }
  return checks;
}

void check_version(const JsonField& document) {
  if (!document.is_object() || !document.find("schema_version") || !document.find("kind")) {
    document.fail("is JSON, but no nqd evidence: it has no schema_version and kind",
                  "give a document that nqd bench, train, calibrate or doctor wrote");
  }
  const int version = document.at("schema_version").integer<int>();
  if (version > kSchemaVersion) {
    document.at("schema_version")
        .fail("is " + std::to_string(version) + ", newer than the " +
                  std::to_string(kSchemaVersion) + " that this nqd reads",
              "read it with the nqd that wrote it, or a later one");
  }
  if (version < 1) document.at("schema_version").fail("must be at least 1");
}

// The header when `text` is lines of `nqd bench --append`.
std::optional<JsonField> lines_header(const std::string& text, const std::filesystem::path& path) {
  const std::string first = text.substr(0, text.find('\n'));
  if (first.size() == text.size() || !is_bench_header(first)) return std::nullopt;
  return JsonField::parse(first, path);
}

void check_same_run(const JsonField& header, const Envelope& first) {
  const Envelope other = read_envelope(header);
  if (other.host.hostname == first.host.hostname && other.backend == first.backend &&
      other.world_size_actual == first.world_size_actual) {
    return;
  }
  header.fail("begins a run of " + std::to_string(other.world_size_actual) + " ranks over " +
                  other.backend + " on host " + other.host.hostname +
                  ", not as the runs before it in this file",
              "give --append a file of its own for each host, backend and number of ranks");
}

Evidence read_lines(const JsonField& header, const std::string& text,
                    const std::filesystem::path& path) {
  check_version(header);
  Evidence evidence;
  evidence.path = path;
  evidence.envelope = read_envelope(header);
  evidence.bench.options = read_options(header.at("options"));
  std::size_t number = 1;
  std::size_t begin = text.find('\n') + 1;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const JsonField line = JsonField::parse(text.substr(begin, end - begin),
                                            path.string() + ":" + std::to_string(++number));
    if (line.find("format")) {
      check_same_run(line, evidence.envelope);
    } else {
      evidence.bench.rows.push_back(read_row(line));
    }
  }
  return evidence;
}

}  // namespace

bool is_bench_header(const std::string& line) {
  // A document on several lines begins with a brace alone.
  if (line.size() < 2 || line.front() != '{' || line.back() != '}') return false;
  try {
    const auto format = JsonField::parse(line, "").find("format");
    return format && format->text() == kLinesFormat;
  } catch (const Error&) {
    return false;
  }
}

Evidence read_evidence(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  if (const auto header = lines_header(text, path)) return read_lines(*header, text, path);
  const JsonField document = JsonField::parse(text, path);
  check_version(document);
  Evidence evidence;
  evidence.path = path;
  const std::string kind = document.at("kind").text();
  evidence.envelope = kind == "curves" ? read_curves_envelope(document) : read_envelope(document);
  if (kind == "bench") {
    evidence.bench = read_bench(document);
  } else if (kind == "train") {
    evidence.train = read_train(document, evidence.envelope);
    evidence.data_path = document.at("data").at("path").text_or("");
  } else if (kind == "calibration") {
    evidence.calibration = read_calibration_document(document);
  } else if (kind == "doctor") {
    evidence.checks = read_checks(document);
  } else if (kind == "curves") {
    evidence.curves = read_curves(document);
  } else if (kind == "scale") {
    evidence.scale = read_scale(document);
  } else {
    document.at("kind").fail("is \"" + kind +
                             "\"; known are bench, train, calibration, doctor, scale, curves");
  }
  return evidence;
}

}  // namespace nqd::reports
