#include "reports/checkpoint_json.h"

#include <optional>

#include "reports/json_writer.h"

namespace nqd::reports {

using Layout = JsonWriter::Layout;

namespace {

void write_file_entry(JsonWriter& json, std::size_t rank, const engine::CheckpointFile& file,
                      const std::vector<planner::RankPlace>& writers) {
  json.begin_object();
  json.field("name", file.name);
  json.field("rank", rank);
  const auto place = [&](std::int64_t planner::RankPlace::*axis) {
    return writers.empty() ? std::nullopt : std::optional(writers[rank].*axis);
  };
  json.field("pp", place(&planner::RankPlace::pp));
  json.field("dp", place(&planner::RankPlace::dp));
  json.field("tp", place(&planner::RankPlace::tp));
  json.field("bytes", file.bytes);
  json.field("elements", file.elements());
  json.key("tensors").begin_array(Layout::kInline);
  for (const std::string& tensor : file.tensors()) json.value(tensor);
  json.end();
  json.end();
}

}  // namespace

std::string generations_json(const std::vector<engine::GenerationInfo>& generations) {
  JsonWriter json;
  json.begin_object();
  json.key("generations").begin_array();
  for (const engine::GenerationInfo& one : generations) {
    json.begin_object(Layout::kInline);
    json.field("name", one.name);
    json.field("step", one.step);
    json.field("bytes", one.bytes);
    json.field("written_at", one.written_at);
    json.field("mesh", one.mesh);
    json.field("complete", one.complete);
    json.field("latest", one.latest);
    json.field("why", one.why);
    json.end();
  }
  json.end();
  json.end();
  return json.take();
}

std::string manifest_summary_json(const engine::Manifest& manifest, const std::string& sha256,
                                  const std::vector<planner::RankPlace>& writers) {
  JsonWriter json;
  json.begin_object();
  json.field("generation", manifest.generation);
  json.field("manifest_sha256", sha256);
  json.field("step", manifest.state.step);
  json.field("skipped_steps", manifest.state.skipped_steps);
  json.field("data_offset", manifest.state.data_offset);
  json.field("written_at", manifest.written_at);
  json.field("mesh", manifest.mesh);
  json.field("data_digest", manifest.data_digest);
  json.key("config").begin_object();
  for (const auto& [key, value] : manifest.config) json.field(key, value);
  json.end();
  json.key("quantities").begin_array(Layout::kInline);
  for (const engine::Quantity quantity : manifest.quantities) json.value(engine::name(quantity));
  json.end();
  json.key("tensors").begin_array();
  for (const engine::CheckpointTensor& tensor : manifest.tensors) {
    json.begin_object(Layout::kInline);
    json.field("name", tensor.name);
    json.key("shape").begin_array(Layout::kInline);
    for (const std::int64_t extent : tensor.shape) json.value(extent);
    json.end();
    json.end();
  }
  json.end();
  json.key("files").begin_array();
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank) {
    write_file_entry(json, rank, manifest.files[rank], writers);
  }
  json.end();
  json.end();
  return json.take();
}

std::string damage_json(const std::string& generation, const std::string& warning,
                        const std::vector<engine::CheckpointDamage>& damage) {
  JsonWriter json;
  json.begin_object();
  json.field("generation", generation);
  json.field("ok", damage.empty() && warning.empty());
  json.field("warning", known(warning));
  json.key("damage").begin_array();
  for (const engine::CheckpointDamage& one : damage) {
    json.begin_object();
    json.field("file", one.file);
    json.field("begin", one.begin);
    json.field("end", one.end);
    json.key("tensors").begin_array();
    for (const std::string& tensor : one.tensors) json.value(tensor);
    json.end();
    json.field("what", one.what);
    json.end();
  }
  json.end();
  json.end();
  return json.take();
}

std::string differences_json(const std::string& a, const std::string& b,
                             const engine::CheckpointDifferences& found) {
  JsonWriter json;
  json.begin_object();
  json.field("a", a);
  json.field("b", b);
  json.field("same", found.same());
  json.key("values").begin_array();
  for (const engine::ValueDifference& one : found.values) {
    json.begin_object(Layout::kInline);
    json.field("key", one.key);
    json.field("a", one.a);
    json.field("b", one.b);
    json.end();
  }
  json.end();
  json.key("tensors").begin_array();
  for (const engine::TensorDifference& one : found.tensors) {
    json.begin_object(Layout::kInline);
    json.field("tensor", one.tensor);
    json.field("quantity", engine::name(one.quantity));
    json.field("elements", one.elements);
    json.field("largest", one.largest);
    json.field("relative_norm", one.relative_norm);
    json.field("only_in", one.only_in);
    json.end();
  }
  json.end();
  json.end();
  return json.take();
}

}  // namespace nqd::reports
