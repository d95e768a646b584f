#include "planner/mesh/rank_map.h"

#include <algorithm>
#include <cstddef>

#include "planner/mesh/fabric.h"

namespace nqd::planner {
namespace {

constexpr std::int64_t kRanksListed = 64;
constexpr std::int64_t kGroupsListed = 8;
constexpr std::size_t kMembersListed = 16;

std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// "0-7", "0, 8, 16, 24", "0, 8, …, 504 (every 8th)".
std::string members_text(const std::vector<std::int64_t>& members) {
  const auto shown = [&](std::size_t i) { return std::to_string(members[i]); };
  if (members.size() == 1) return shown(0);
  const std::int64_t step = members[1] - members[0];
  bool even = true;
  for (std::size_t i = 1; i < members.size(); ++i) {
    even = even && members[i] - members[i - 1] == step;
  }
  const std::size_t last = members.size() - 1;
  if (even && step == 1) return shown(0) + "-" + shown(last);
  if (even && members.size() > 4) {
    return shown(0) + ", " + shown(1) + ", …, " + shown(last) + " (every " + std::to_string(step) +
           ")";
  }
  std::string text;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members.size() > kMembersListed && i == kMembersListed - 2) {
      return text + ", …, " + shown(last);
    }
    text += (i == 0 ? "" : ", ") + shown(i);
  }
  return text;
}

std::string place_line(const RankPlace& place) {
  std::string line = " ";
  for (const std::int64_t value : {place.rank, place.node, place.gpu, place.nic, place.dp, place.pp,
                                   place.cp, place.tp, place.ep}) {
    line += right(std::to_string(value), 8);
  }
  return line + "\n";
}

std::string places_text(const RankMap& map, std::int64_t gpus_per_node) {
  std::string text = " ";
  for (const char* title : {"rank", "node", "gpu", "nic", "dp", "pp", "cp", "tp", "ep"}) {
    text += right(title, 8);
  }
  text += "\n";
  const std::int64_t ranks = map.ranks();
  const bool all = ranks <= kRanksListed || map.nodes() <= 2;
  const std::int64_t head = all ? ranks : std::min(gpus_per_node, kRanksListed / 2);
  for (std::int64_t rank = 0; rank < head; ++rank) text += place_line(map.place(rank));
  if (all) return text;
  text += "  … " + std::to_string(ranks - 2 * head) + " ranks on the nodes between …\n";
  for (std::int64_t rank = ranks - head; rank < ranks; ++rank) text += place_line(map.place(rank));
  return text;
}

// The groups of one kind by their members, a line each.
template <typename Members>
std::string groups_text(const std::string& title, std::int64_t count, Members members) {
  std::string text = "  " + title + "\n";
  const std::int64_t head = count <= kGroupsListed ? count : 3;
  for (std::int64_t group = 0; group < head; ++group) {
    text += "    " + members_text(members(group)) + "\n";
  }
  if (head == count) return text;
  return text + "    … " + std::to_string(count - head - 1) + " more …\n    " +
         members_text(members(count - 1)) + "\n";
}

std::string groups_of(std::int64_t count, std::int64_t size) {
  return std::to_string(count) + (count == 1 ? " group of " : " groups of ") + std::to_string(size);
}

std::string axis_text(const RankMap& map, MeshAxis axis) {
  const std::int64_t count = map.group_count(axis);
  const std::int64_t nodes = map.nodes_of_group(axis);
  const std::string title =
      std::string(name(axis)) + ": " + groups_of(count, map.group_size(axis)) + ", " +
      (nodes == 1 ? "inside a node" : "over " + std::to_string(nodes) + " nodes");
  return groups_text(title, count, [&](std::int64_t group) { return map.members(axis, group); });
}

// The ends of each pipeline, where the head shares the embedding.
std::string embedding_text(const RankMap& map) {
  if (map.embedding_members(0).empty()) return {};
  const std::int64_t count = map.group_count(MeshAxis::kPp);
  return groups_text("embedding: " + groups_of(count, 2) + ", first and last stage", count,
                     [&](std::int64_t group) { return map.embedding_members(group); });
}

}  // namespace

std::string_view name(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::kTp:
      return "tp";
    case MeshAxis::kCp:
      return "cp";
    case MeshAxis::kPp:
      return "pp";
    case MeshAxis::kDp:
      return "dp";
    case MeshAxis::kEp:
      return "ep";
  }
  return "?";
}

RankMap::RankMap(const Config& config)
    : dp_(config.parallel.dp),
      tp_(config.parallel.tp),
      cp_(config.parallel.cp),
      pp_(config.parallel.pp),
      ep_(config.parallel.ep),
      expert_tp_(expert_tp_of(config.parallel, config.parallel.tp)),
      gpus_per_node_(config.cluster.gpus_per_node),
      nics_per_node_(config.cluster.nics_per_node > 0 ? config.cluster.nics_per_node
                                                      : config.cluster.gpus_per_node),
      order_(config.parallel.order),
      // A V has both ends of the model on its first rank.
      tied_ends_(is_transformer(config.model) && config.model.tied_head && config.parallel.pp > 1 &&
                 config.parallel.schedule != Schedule::kZbV) {}

std::int64_t RankMap::stride(MeshAxis axis) const {
  const bool pp_first = order_ == MeshOrder::kPpThenDp;
  switch (axis) {
    case MeshAxis::kCp:
      return tp_;
    case MeshAxis::kPp:
      return tp_ * cp_ * (pp_first ? 1 : dp_);
    case MeshAxis::kDp:
      return tp_ * cp_ * (pp_first ? pp_ : 1);
    case MeshAxis::kTp:
    case MeshAxis::kEp:
      break;
  }
  return 1;
}

RankPlace RankMap::place(std::int64_t rank) const {
  RankPlace place;
  place.rank = rank;
  place.node = rank / gpus_per_node_;
  place.gpu = rank % gpus_per_node_;
  place.nic = place.gpu * nics_per_node_ / gpus_per_node_;
  place.tp = rank % tp_;
  place.cp = rank / stride(MeshAxis::kCp) % cp_;
  place.pp = rank / stride(MeshAxis::kPp) % pp_;
  place.dp = rank / stride(MeshAxis::kDp) % dp_;
  const std::int64_t of_stage = place.tp + tp_ * (place.cp + cp_ * place.dp);
  place.ep = of_stage / expert_tp_ % ep_;
  return place;
}

std::int64_t RankMap::group_size(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kTp:
      return tp_;
    case MeshAxis::kCp:
      return cp_;
    case MeshAxis::kPp:
      return pp_;
    case MeshAxis::kDp:
      return dp_;
    case MeshAxis::kEp:
      return ep_;
  }
  return 1;
}

std::vector<std::int64_t> RankMap::members(MeshAxis axis, std::int64_t group) const {
  if (axis == MeshAxis::kEp) return expert_group(group);
  const std::int64_t step = stride(axis);
  // Groups fill blocks of step·size ranks: `step` of them start at the first ranks of each block.
  const std::int64_t first = group / step * step * group_size(axis) + group % step;
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < group_size(axis); ++i) ranks.push_back(first + i * step);
  return ranks;
}

std::vector<std::int64_t> RankMap::embedding_members(std::int64_t group) const {
  if (!tied_ends_) return {};
  const std::vector<std::int64_t> pipeline = members(MeshAxis::kPp, group);
  return {pipeline.front(), pipeline.back()};
}

std::vector<std::int64_t> RankMap::expert_group(std::int64_t group) const {
  const std::int64_t groups_of_stage = dp_ * cp_ * tp_ / ep_;
  const std::int64_t stage = group / groups_of_stage;
  const std::int64_t in_stage = group % groups_of_stage;
  const std::int64_t first = in_stage / expert_tp_ * expert_tp_ * ep_ + in_stage % expert_tp_;
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < ep_; ++i) {
    const std::int64_t of_stage = first + i * expert_tp_;
    ranks.push_back(of_stage % tp_ + of_stage / tp_ % cp_ * stride(MeshAxis::kCp) +
                    stage * stride(MeshAxis::kPp) + of_stage / (tp_ * cp_) * stride(MeshAxis::kDp));
  }
  return ranks;
}

std::int64_t RankMap::nodes_of_group(MeshAxis axis) const {
  std::int64_t most = 1;
  for (std::int64_t group = 0; group < group_count(axis); ++group) {
    std::int64_t nodes = 0;
    std::int64_t node = -1;
    for (const std::int64_t rank : members(axis, group)) {
      if (rank / gpus_per_node_ != node) ++nodes;
      node = rank / gpus_per_node_;
    }
    most = std::max(most, nodes);
  }
  return most;
}

std::string render_rank_map(const Config& config) {
  const RankMap map(config);
  std::string text = "  rank map, order " + std::string(name(config.parallel.order)) + ": " +
                     std::to_string(map.ranks()) + " ranks on " + std::to_string(map.nodes()) +
                     (map.nodes() == 1 ? " node of " : " nodes of ") +
                     std::to_string(config.cluster.gpus_per_node) + "\n" +
                     places_text(map, config.cluster.gpus_per_node);
  for (const MeshAxis axis : kMeshAxes) {
    if (map.group_size(axis) > 1) text += axis_text(map, axis);
  }
  return text + embedding_text(map);
}

std::string open_mpi_rankfile(const Config& config, const std::vector<std::string>& hosts) {
  const RankMap map(config);
  const std::int64_t threads = config.train.threads;
  const auto host = [&](std::int64_t node) {
    if (!hosts.empty()) return hosts[static_cast<std::size_t>(node)];
    return map.nodes() == 1 ? std::string("localhost") : "+n" + std::to_string(node);
  };
  std::string text;
  for (std::int64_t rank = 0; rank < map.ranks(); ++rank) {
    const RankPlace place = map.place(rank);
    const std::int64_t first = place.gpu * threads;
    text +=
        "rank " + std::to_string(rank) + "=" + host(place.node) + " slot=" + std::to_string(first);
    if (threads > 1) text += "-" + std::to_string(first + threads - 1);
    text += "\n";
  }
  return text;
}

}  // namespace nqd::planner
