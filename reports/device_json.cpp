#include "reports/device_json.h"

#include "reports/bench_parts_json.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

std::optional<int> found(int number) { return number < 0 ? std::nullopt : std::optional(number); }

void write_record(JsonWriter& json, const collectives::DeviceRecord& record) {
  json.begin_object(Layout::kInline);
  json.field("rank", record.rank);
  json.field("host", record.host);
  json.field("ordinal", record.ordinal);
  json.field("uuid", record.uuid);
  json.field("name", record.name);
  json.field("bus_id", record.bus_id);
  json.field("driver", known(record.driver));
  json.field("numa_node", found(record.numa_node));
  json.field("pcie_generation", found(record.pcie_generation));
  json.field("pcie_width", found(record.pcie_width));
  json.field("nvlinks", found(record.nvlinks));
  json.key("peers").begin_array(Layout::kInline);
  for (const std::string& relation : record.peers) json.value(relation);
  json.end();
  json.key("adapters").begin_object(Layout::kInline);
  for (const auto& [name, relation] : record.adapters) json.field(name, relation);
  json.end();
  json.end();
}

}  // namespace

void write_device(JsonWriter& json, const DeviceEvidence& evidence) {
  json.key("device").begin_object();
  json.field("nccl_version", evidence.nccl_version);
  json.field("graph", evidence.graph);
  json.key("ranks").begin_array();
  for (const collectives::DeviceRecord& record : evidence.devices) write_record(json, record);
  json.end();
  json.end();
}

}  // namespace nqd::reports
