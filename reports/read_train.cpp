#include "reports/read_train.h"

#include <limits>
#include <optional>

namespace nqd::reports {
namespace {

// null in a document: the figure was not finite when it was written.
constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();

engine::StepRecord read_step(const JsonField& json) {
  // Documents of nqd 0.1 had no steps to skip.
  const auto skipped = json.find("skipped");
  const auto host = json.find("host_s");
  return {.step = json.at("step").integer<std::int64_t>(),
          .loss = json.at("loss").number_or(kNotFinite),
          .tokens = json.at("tokens").integer<std::int64_t>(),
          .step_s = json.at("step_s").number_or(kNotFinite),
          .grad_norm = json.at("grad_norm").number_or(kNotFinite),
          .skipped = skipped && skipped->boolean(),
          .lr = json.at("lr").number_or(kNotFinite),
          .exposed_communication_s = json.at("exposed_communication_s").number_or(kNotFinite),
          .host_s = host ? std::optional(host->number_or(kNotFinite)) : std::nullopt};
}

void read_device(const JsonField& json, engine::TrainResult& result) {
  if (const auto graph = json.find("step_graph")) {
    result.step_graph = {.steps = graph->at("steps").integer<std::int64_t>(),
                         .reason = graph->at("reason").text()};
  }
  if (const auto memory = json.find("uncounted_memory")) {
    const auto bytes = [&](const char* name) { return memory->at(name).integer<std::uint64_t>(); };
    result.uncounted_memory = {.scratch_bytes = bytes("scratch_bytes"),
                               .library_bytes = bytes("library_bytes"),
                               .pinned_bytes = bytes("pinned_bytes"),
                               .reserved_bytes = bytes("reserved_bytes")};
  }
}

engine::AuditRow read_audit_row(const JsonField& json) {
  engine::AuditRow row;
  row.category = json.at("category").text();
  row.kind = json.at("kind").text();
  row.unit = json.at("unit").text();
  if (row.unit != "s" && row.unit != "bytes" && row.unit != "ranks") {
    json.at("unit").fail("must be \"bytes\", \"s\" or \"ranks\"");
  }
  const std::string suffix = "_" + row.unit;
  row.predicted = json.at("predicted" + suffix).number_or(kNotFinite);
  row.measured = json.at("measured" + suffix).number_or(kNotFinite);
  row.ratio = json.at("ratio").number_or(std::numeric_limits<double>::max());
  row.exact = json.at("exact").boolean();
  row.ok = json.at("ok").boolean();
  row.note = json.at("note").text();
  return row;
}

engine::TrafficRecord read_traffic(const JsonField& json) {
  return {.rank = json.at("rank").integer<int>(),
          .group = json.at("group").text(),
          .collective = json.at("collective").text(),
          .calls = json.at("calls").integer<std::uint64_t>(),
          .messages = json.at("messages").integer<std::uint64_t>(),
          .bytes_sent = json.at("bytes_sent").integer<std::uint64_t>()};
}

engine::FaultRecord read_fault(const JsonField& json) {
  engine::FaultRecord fault;
  fault.code = json.at("code").text();
  fault.message = json.at("message").text();
  if (const auto rank = json.find("lost_rank")) fault.lost_rank = rank->integer<int>();
  fault.lost_host = json.at("lost_host").text_or("");
  fault.at_step = json.at("at_step").integer<std::int64_t>();
  fault.detected_s = json.at("detected_s").number_or(kNotFinite);
  return fault;
}

engine::StragglerRecord read_straggler(const JsonField& json) {
  return {.step = json.at("step").integer<std::int64_t>(),
          .rank = json.at("rank").integer<int>(),
          .host = json.at("host").text(),
          .phase = json.at("phase").text(),
          .seconds = json.at("seconds").number_or(kNotFinite),
          .median_s = json.at("median_s").number_or(kNotFinite),
          .score = json.at("score").number_or(kNotFinite)};
}

}  // namespace

engine::TrainResult read_train(const JsonField& json, const Envelope& envelope) {
  engine::TrainResult result;
  for (const JsonField& step : json.at("steps").items()) result.steps.push_back(read_step(step));
  if (const auto skipped = json.find("skipped_steps")) {
    result.skipped_steps = skipped->integer<std::int64_t>();
  }
  for (const JsonField& eval : json.at("evals").items()) {
    result.evals.push_back({.step = eval.at("step").integer<std::int64_t>(),
                            .loss = eval.at("heldout_loss").number_or(kNotFinite),
                            .tokens = eval.at("tokens").integer<std::int64_t>()});
  }
  for (const JsonField& row : json.at("audit").items()) result.audit.push_back(read_audit_row(row));
  for (const JsonField& sent : json.at("traffic").items()) {
    result.traffic.push_back(read_traffic(sent));
  }
  if (const auto ok = json.find("audit_ok")) result.audit_ok = ok->boolean();
  result.tokens_per_s = json.at("tokens_per_s").number_or(0);
  result.mfu = json.at("mfu").number_or(0);
  if (const auto scale = json.find("noise_scale_sequences")) {
    if (const double sequences = scale->number_or(-1); sequences >= 0) {
      result.noise_scale = sequences;
    }
  }
  result.parameters = json.at("parameters").integer<std::int64_t>();
  result.data_digest = json.at("data").at("digest").text_or("");
  result.weights_sha256 = json.at("weights_sha256").text_or("");
  result.gemm_library = json.at("gemm_library").text_or("");
  result.gemm_core = json.at("gemm_core").text_or("");
  read_device(json, result);
  if (const auto attention = json.find("attention_library")) {
    result.attention_library = attention->text();
  }
  result.backend = envelope.backend;
  result.ranks = envelope.ranks;
  if (const auto fault = json.find("fault")) result.fault = read_fault(*fault);
  if (const auto stragglers = json.find("stragglers")) {
    for (const JsonField& one : stragglers->items()) {
      result.stragglers.push_back(read_straggler(one));
    }
  }
  if (const auto stopped = json.find("stopped")) result.stopped = stopped->boolean();
  return result;
}

}  // namespace nqd::reports
