#include <optional>

#include "reports/bench_parts_json.h"
#include "reports/device_json.h"
#include "reports/envelope_json.h"
#include "reports/evidence.h"
#include "reports/summary.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

std::optional<std::uint64_t> counted(std::uint64_t bytes) {
  return bytes == 0 ? std::nullopt : std::optional(bytes);
}

void write_options(JsonWriter& json, const collectives::BenchOptions& options) {
  json.key("options").begin_object();
  json.field("collective", collectives::bench_name(options));
  json.key("algorithms").begin_array(Layout::kInline);
  for (const collectives::Algorithm algorithm : options.algorithms) {
    json.value(collectives::name(algorithm));
  }
  json.end();
  json.field("dtype", name(options.dtype));
  json.field("op", collectives::name(options.op));
  json.field("begin_bytes", options.begin_bytes);
  json.field("end_bytes", options.end_bytes);
  json.field("factor", options.factor);
  json.field("step_bytes", options.step_bytes);
  json.field("warmup", options.warmup);
  json.field("iterations", options.iterations);
  json.field("time_s", measured(options.time_s));
  json.field("repeat", options.repeat);
  json.field("seed", options.seed);
  json.field("check", options.check);
  json.field("in_place", options.in_place);
  json.field("registered", options.registered);
  json.field("promised_bytes_per_s", measured(options.promised_bytes_per_s));
  json.field("cold", options.cold);
  json.field("cache_bytes", counted(options.cache_bytes));
  json.field("root", options.root);
  json.key("pair");
  if (options.pair) {
    json.begin_array(Layout::kInline)
        .value(options.pair->front())
        .value(options.pair->back())
        .end();
  } else {
    json.null();
  }
  json.end();
}

void write_interval(JsonWriter& json, const collectives::BenchRow& row) {
  json.key("p50_ci95_s");
  if (row.p50_low_s == 0) {
    json.null();
  } else {
    json.begin_array(Layout::kInline).value(row.p50_low_s).value(row.p50_high_s).end();
  }
}

// `estimate_s`: the library's, where the row is of a device; null otherwise.
void write_row(JsonWriter& json, const collectives::BenchRow& row, Layout layout,
               const std::optional<double>* estimate_s = nullptr) {
  json.begin_object(layout);
  json.field("collective", row.collective);
  json.field("backend", row.backend);
  json.field("transport", row.transport);
  json.field("algorithm", row.algorithm);
  json.field("requested_algorithm", row.requested_algorithm);
  json.field("in_place", row.in_place);
  json.field("registered", row.registered);
  json.field("dtype", row.dtype);
  json.field("op", row.op);
  json.field("numerics", row.numerics);
  json.field("requested_bytes", row.requested_bytes);
  json.field("effective_bytes", row.effective_bytes);
  json.field("ranks", row.ranks);
  json.field("rank_reduction", "max");
  json.field("samples_s", std::span<const double>(row.samples_s));
  json.field("min_s", row.min_s);
  json.field("p50_s", row.p50_s);
  json.field("p95_s", row.p95_s);
  json.field("p99_s", row.p99_s);
  json.field("max_s", row.max_s);
  write_interval(json, row);
  json.field("repeat_p50_s", std::span<const double>(row.repeat_p50_s));
  json.field("repeat_spread", row.repeat_p50_s.size() > 1
                                  ? std::optional(collectives::repeat_spread(row))
                                  : std::nullopt);
  json.key("order").begin_array(Layout::kInline);
  for (const int place : row.order) json.value(place);
  json.end();
  json.field("copies", row.copies);
  json.field("algbw_gbps", row.algbw_gbps);
  json.field("busbw_gbps", row.busbw_gbps);
  json.field("checked", row.checked);
  json.field("wrong", row.checked ? std::optional(row.wrong) : std::nullopt);
  json.field("bytes_sent_per_rank", counted(row.bytes_sent_per_rank));
  json.field("predicted_bytes_per_rank", counted(row.predicted_bytes_per_rank));
  write_usage(json, row.usage);
  if (estimate_s != nullptr) json.field("library_estimate_s", *estimate_s);
  json.end();
}

void write_gemm_row(JsonWriter& json, const collectives::GemmRow& row) {
  json.begin_object();
  json.field("m", row.m);
  json.field("n", row.n);
  json.field("k", row.k);
  json.field("layout", row.layout);
  json.field("library", row.library);
  json.field("threads", row.threads);
  json.field("samples_s", std::span<const double>(row.samples_s));
  json.field("p50_s", row.p50_s);
  json.field("gflops", row.gflops);
  json.end();
}

void write_kernel_row(JsonWriter& json, const collectives::KernelRow& row) {
  json.begin_object(Layout::kInline);
  json.field("kernel", row.kernel);
  json.field("m", row.m);
  json.field("n", row.n);
  json.field("k", row.k);
  json.field("items", row.items);
  json.field("units", row.units);
  json.field("calls", row.calls);
  json.field("numerics", row.numerics);
  json.field("precision", row.precision);
  json.field("threads", row.threads);
  json.field("ranks", row.ranks);
  json.field("cpus", row.cpus);
  json.field("samples_s", std::span<const double>(row.samples_s));
  json.field("p50_s", row.p50_s);
  json.end();
}

void write_summary(JsonWriter& json, const collectives::BenchResult& result) {
  json.key("summary").begin_array();
  for (const FabricSummary& entry : summarize(result)) {
    json.begin_object(Layout::kInline);
    json.field("collective", entry.collective);
    json.field("algorithm", entry.algorithm);
    json.field("ranks", entry.ranks);
    json.field("peak_busbw_gbps", entry.peak_busbw_gbps);
    json.field("peak_bytes", entry.peak_bytes);
    json.field("smallest_bytes", entry.smallest_bytes);
    json.field("smallest_p50_s", entry.smallest_p50_s);
    json.end();
  }
  json.end();
}

void write_definitions(JsonWriter& json) {
  json.key("definitions").begin_object();
  json.field("samples_s",
             "seconds of one call (pingpong: half of one round trip), after a barrier, each "
             "reduced over ranks as rank_reduction says");
  json.field("rank_reduction", "max: the slowest rank's time of each call");
  json.field("requested_bytes", "the size asked for, of the vector that effective_bytes defines");
  json.field("effective_bytes",
             "whole elements: the vector of all_reduce, broadcast and reduce; all ranks' parts "
             "together in all_gather, reduce_scatter, gather and scatter; what one rank gives in "
             "all_to_all; one message of send_recv and pingpong");
  json.field("p50_s", "nearest-rank percentile of samples_s, all repeats together; p95, p99 alike");
  json.field("p50_ci95_s", "95 % interval of the median, from order statistics");
  json.field("repeat_spread", "(largest - smallest) / median of repeat_p50_s");
  json.field("order", "place of each repeat among all measurements of the sweep, from 0");
  json.field("copies", "copies of the vectors that successive calls rotate through");
  json.field("algbw_gbps", "effective_bytes / p50_s / 1e9");
  json.field("busbw_gbps",
             "algbw_gbps x 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter, "
             "all_to_all, gather and scatter, "
             "else 1; n = ranks");
  json.field("gflops", "2mnk / p50_s / 1e9");
  json.field("kernel_rows",
             "items and units: what the time of one call grows with; calls: in a step of the "
             "config on one rank, 0 for shapes that only the fit needs; samples_s: of the rank "
             "with the highest median");
  json.field("usage",
             "by rank, a call of the timed loop with its barrier; getrusage of the calling thread");
  json.field(
      "bandwidth_gbps",
      "memory_rows: traffic_bytes / p50_s / 1e9, traffic_bytes read and written by the ranks "
      "of the row; pairs: bytes of a large message / half of its mean round trip / 1e9");
  json.field("latency_s", "half of the mean round trip of 8 bytes");
  json.field("limit_s",
             "the p50_s of the faster of copy and nt_copy of that size, all ranks together");
  json.field("mean_late_s", "mean of (arrival - first arrival of the iteration); p95 likewise");
  json.field("last_share", "share of the iterations in which the rank arrived last");
  json.end();
}

std::string document(const Envelope& envelope, const collectives::BenchResult& result,
                     const DeviceEvidence* device) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  write_definitions(json);
  write_options(json, result.options);
  json.key("rows").begin_array();
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    write_row(json, result.rows[i], Layout::kLines,
              device != nullptr ? &device->estimates_s[i] : nullptr);
  }
  json.end();
  json.key("gemm_rows").begin_array();
  for (const collectives::GemmRow& row : result.gemm_rows) write_gemm_row(json, row);
  json.end();
  json.key("kernel_rows").begin_array();
  for (const collectives::KernelRow& row : result.kernel_rows) write_kernel_row(json, row);
  json.end();
  json.field("memory_bandwidth_bytes_per_s", measured(result.memory_bandwidth_bytes_per_s));
  write_probes(json, result);
  write_machine(json, result.machine);
  if (device != nullptr) write_device(json, *device);
  write_summary(json, result);
  write_verdicts(json, result.verdicts);
  json.end();
  return json.take();
}

}  // namespace

std::string bench_json(const Envelope& envelope, const collectives::BenchResult& result) {
  return document(envelope, result, nullptr);
}

std::string bench_json(const Envelope& envelope, const collectives::BenchResult& result,
                       const DeviceEvidence& evidence) {
  return document(envelope, result, &evidence);
}

std::string bench_header_line(const Envelope& envelope, const collectives::BenchOptions& options) {
  JsonWriter json;
  json.begin_object(Layout::kInline);
  write_envelope(json, envelope);
  json.field("format", kLinesFormat);
  write_definitions(json);
  write_options(json, options);
  json.end();
  return json.take();
}

std::string bench_row_line(const collectives::BenchRow& row) {
  JsonWriter json;
  write_row(json, row, Layout::kInline);
  return json.take();
}

}  // namespace nqd::reports
