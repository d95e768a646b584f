#include "reports/bench_parts_json.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

void write_memory_row(JsonWriter& json, const collectives::MemoryRow& row) {
  json.begin_object(Layout::kInline);
  json.field("kernel", row.kernel);
  json.field("rank", row.rank < 0 ? std::nullopt : std::optional(row.rank));
  json.field("bytes", row.bytes);
  json.field("traffic_bytes", row.traffic_bytes);
  json.field("p50_s", row.p50_s);
  json.field("bandwidth_gbps", row.bandwidth_gbps);
  json.field("samples_s", std::span<const double>(row.samples_s));
  json.end();
}

}  // namespace

void write_probes(JsonWriter& json, const collectives::BenchResult& result) {
  json.key("memory_rows").begin_array();
  for (const collectives::MemoryRow& row : result.memory_rows) write_memory_row(json, row);
  json.end();
  json.key("all_reduce_limits").begin_array();
  for (const collectives::AllReduceLimit& limit : result.all_reduce_limits) {
    json.begin_object(Layout::kInline);
    json.field("bytes", limit.bytes);
    json.field("limit_s", limit.limit_s);
    json.field("limit_busbw_gbps", limit.limit_busbw_gbps);
    json.end();
  }
  json.end();
  json.key("pairs").begin_array();
  for (const collectives::PairRow& pair : result.pairs) {
    json.begin_object(Layout::kInline);
    json.field("a", pair.a);
    json.field("b", pair.b);
    json.field("latency_s", pair.latency_s);
    json.field("bandwidth_gbps", pair.bandwidth_gbps);
    json.end();
  }
  json.end();
  json.key("stragglers").begin_array();
  for (const collectives::StragglerRow& row : result.stragglers) {
    json.begin_object(Layout::kInline);
    json.field("rank", row.rank);
    json.field("host", row.host);
    json.field("mean_late_s", row.mean_late_s);
    json.field("p95_late_s", row.p95_late_s);
    json.field("last_share", row.last_share);
    json.end();
  }
  json.end();
}

}  // namespace nqd::reports
