#include <optional>

#include "reports/diagnose/diagnosis.h"
#include "reports/envelope_json.h"
#include "reports/json_writer.h"

namespace nqd::reports {
namespace {

using collectives::NcclComm;
using collectives::NcclEdge;
using collectives::NcclProcess;
using Layout = JsonWriter::Layout;

std::optional<int> above_zero(int value) { return value > 0 ? std::optional(value) : std::nullopt; }

void write_texts(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array(Layout::kInline);
  for (const std::string& text : texts) json.value(text);
  json.end();
}

void write_maybe_texts(JsonWriter& json, std::string_view key,
                       const std::optional<std::vector<std::string>>& texts) {
  if (texts) {
    write_texts(json, key, *texts);
  } else {
    json.key(key).null();
  }
}

void write_row(JsonWriter& json, const MeasuredRun& run, const collectives::BenchRow& row) {
  json.begin_object(Layout::kInline);
  json.field("path", run.path);
  json.field("collective", row.collective);
  json.field("backend", row.backend);
  json.field("algorithm", row.algorithm);
  json.field("in_place", row.in_place);
  json.field("dtype", row.dtype);
  json.field("op", row.op);
  json.field("effective_bytes", row.effective_bytes);
  json.field("ranks", above_zero(row.ranks));
  json.field("nodes", above_zero(run.nodes));
  json.field("p50_s", row.p50_s);
  json.field("algbw_gbps", row.algbw_gbps);
  json.field("busbw_gbps", row.busbw_gbps);
  json.field("wrong", row.checked ? std::optional(row.wrong) : std::nullopt);
  json.end();
}

void write_comm(JsonWriter& json, const NcclComm& comm) {
  json.begin_object(Layout::kInline);
  json.field("rank", comm.rank);
  json.field("ranks", above_zero(comm.ranks));
  json.field("nodes", above_zero(comm.nodes));
  json.field("gpu", known(comm.gpu));
  json.field("init_started", comm.started);
  json.field("init_completed", comm.completed);
  json.end();
}

// Edges by transport; of those over a network also by adapter.
void write_edges(JsonWriter& json, const std::vector<NcclEdge>& edges) {
  std::uint64_t peer = 0, shared = 0, network = 0, direct = 0, staged = 0;
  for (const NcclEdge& edge : edges) {
    peer += edge.kind == NcclEdge::Kind::kPeerToPeer ? 1 : 0;
    shared += edge.kind == NcclEdge::Kind::kSharedMemory ? 1 : 0;
    network += edge.kind == NcclEdge::Kind::kNetwork ? 1 : 0;
    direct += edge.gpu_direct == true ? 1 : 0;
    staged += edge.gpu_direct == false ? 1 : 0;
  }
  json.key("edges").begin_object(Layout::kInline);
  json.field("p2p", peer);
  json.field("shared_memory", shared);
  json.field("network", network);
  json.field("gpu_direct", direct);
  json.field("staged", staged);
  json.end();
}

void write_process(JsonWriter& json, const NcclProcess& process) {
  json.begin_object();
  json.field("host", known(process.host));
  json.field("pid", process.pid);
  json.key("communicators").begin_array();
  for (const NcclComm& comm : process.comms) write_comm(json, comm);
  json.end();
  json.field("network", known(process.network));
  write_maybe_texts(json, "adapters", process.adapters);
  write_maybe_texts(json, "interfaces", process.interfaces);
  json.field("bootstrap_interface", known(process.bootstrap_interface));
  write_edges(json, process.edges);
  write_texts(json, "plugins_initialized", process.plugins_initialized);
  write_texts(json, "plugins_failed", process.plugins_failed);
  write_texts(json, "gdr_enabled", process.gdr_enabled);
  write_texts(json, "gdr_disabled", process.gdr_disabled);
  json.key("environment").begin_object(Layout::kInline);
  for (const auto& [name, value] : process.environment) json.field(name, value);
  json.end();
  write_texts(json, "warnings", process.warnings);
  json.end();
}

}  // namespace

std::string diagnosis_json(const Envelope& envelope, const Diagnosis& diagnosis) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.key("inputs").begin_array();
  for (const DiagnosisInput& input : diagnosis.inputs) {
    json.begin_object(Layout::kInline);
    json.field("path", input.path.string());
    json.field("kind", input.kind);
    json.end();
  }
  json.end();
  json.field("promised_by", known(diagnosis.promised_by));
  json.field("nccl_version", known(diagnosis.log.version));
  json.key("rows").begin_array();
  for (const MeasuredRun& run : diagnosis.runs) {
    for (const collectives::BenchRow& row : run.rows) write_row(json, run, row);
  }
  json.end();
  json.key("processes").begin_array();
  for (const NcclProcess& process : diagnosis.log.processes) write_process(json, process);
  json.end();
  json.key("notes").begin_array();
  for (const std::string& note : diagnosis.notes) json.value(note);
  json.end();
  write_verdicts(json, diagnosis.verdicts);
  json.end();
  return json.take();
}

}  // namespace nqd::reports
