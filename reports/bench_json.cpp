#include <optional>

#include "reports/bench_parts_json.h"
#include "reports/envelope_json.h"
#include "reports/evidence.h"
#include "reports/summary.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

void write_options(JsonWriter& json, const collectives::BenchOptions& options) {
  json.key("options").begin_object();
  json.field("collective", collectives::name(options.collective));
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
  json.field("check", options.check);
  json.field("in_place", options.in_place);
  json.field("registered", options.registered);
  json.field("promised_bytes_per_s", measured(options.promised_bytes_per_s));
  json.end();
}

std::optional<std::uint64_t> counted(std::uint64_t bytes) {
  return bytes == 0 ? std::nullopt : std::optional(bytes);
}

void write_row(JsonWriter& json, const collectives::BenchRow& row) {
  json.begin_object();
  json.field("collective", row.collective);
  json.field("backend", row.backend);
  json.field("transport", row.transport);
  json.field("algorithm", row.algorithm);
  json.field("in_place", row.in_place);
  json.field("registered", row.registered);
  json.field("dtype", row.dtype);
  json.field("op", row.op);
  json.field("numerics", row.numerics);
  json.field("requested_bytes", row.requested_bytes);
  json.field("effective_bytes", row.effective_bytes);
  json.field("ranks", row.ranks);
  json.field("samples_s", std::span<const double>(row.samples_s));
  json.field("min_s", row.min_s);
  json.field("p50_s", row.p50_s);
  json.field("p95_s", row.p95_s);
  json.field("p99_s", row.p99_s);
  json.field("max_s", row.max_s);
  json.field("algbw_gbps", row.algbw_gbps);
  json.field("busbw_gbps", row.busbw_gbps);
  json.field("checked", row.checked);
  json.field("wrong", row.checked ? std::optional(row.wrong) : std::nullopt);
  json.field("bytes_sent_per_rank", counted(row.bytes_sent_per_rank));
  json.field("predicted_bytes_per_rank", counted(row.predicted_bytes_per_rank));
  write_usage(json, row.usage);
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
  json.field("samples_s", "seconds of one call, each the maximum over ranks");
  json.field("algbw_gbps", "effective_bytes / p50_s / 1e9");
  json.field("busbw_gbps",
             "algbw_gbps x 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter, "
             "all_to_all, gather and scatter, "
             "else 1; n = ranks");
  json.field("gflops", "2mnk / p50_s / 1e9");
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

}  // namespace

std::string bench_json(const Envelope& envelope, const collectives::BenchResult& result) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  write_definitions(json);
  write_options(json, result.options);
  json.key("rows").begin_array();
  for (const collectives::BenchRow& row : result.rows) write_row(json, row);
  json.end();
  json.key("gemm_rows").begin_array();
  for (const collectives::GemmRow& row : result.gemm_rows) write_gemm_row(json, row);
  json.end();
  json.field("memory_bandwidth_bytes_per_s", measured(result.memory_bandwidth_bytes_per_s));
  write_probes(json, result);
  write_machine(json, result.machine);
  write_summary(json, result);
  write_verdicts(json, result.verdicts);
  json.end();
  return json.take();
}

}  // namespace nqd::reports
