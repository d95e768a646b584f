#include "reports/rank_map_json.h"

#include <cstdint>
#include <vector>

#include "planner/mesh/rank_map.h"

namespace nqd::reports {

using Layout = JsonWriter::Layout;

void write_rank_map(JsonWriter& json, const planner::Config& config) {
  const planner::RankMap map(config);
  json.key("rank_map").begin_object();
  json.field("order", planner::name(config.parallel.order));
  json.key("ranks").begin_array();
  for (std::int64_t rank = 0; rank < map.ranks(); ++rank) {
    const planner::RankPlace place = map.place(rank);
    json.begin_object(Layout::kInline);
    json.field("rank", place.rank);
    json.field("node", place.node);
    json.field("gpu", place.gpu);
    json.field("nic", place.nic);
    json.field("dp", place.dp);
    json.field("pp", place.pp);
    json.field("cp", place.cp);
    json.field("tp", place.tp);
    json.field("ep", place.ep);
    json.end();
  }
  json.end();
  json.key("groups").begin_object();
  for (const planner::MeshAxis axis : planner::kMeshAxes) {
    json.key(planner::name(axis)).begin_array();
    for (std::int64_t group = 0; group < map.group_count(axis); ++group) {
      json.begin_array(Layout::kInline);
      for (const std::int64_t rank : map.members(axis, group)) json.value(rank);
      json.end();
    }
    json.end();
  }
  json.key("embedding").begin_array();
  for (std::int64_t group = 0; group < map.group_count(planner::MeshAxis::kPp); ++group) {
    const std::vector<std::int64_t> ends = map.embedding_members(group);
    if (ends.empty()) break;
    json.begin_array(Layout::kInline);
    for (const std::int64_t rank : ends) json.value(rank);
    json.end();
  }
  json.end();
  json.end().end();
}

}  // namespace nqd::reports
