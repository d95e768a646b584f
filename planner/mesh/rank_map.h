// Which rank sits where: its node, device and network adapter, its place in the mesh, and the ranks
// that it communicates with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

struct RankPlace {
  std::int64_t rank = 0;
  std::int64_t node = 0;
  std::int64_t gpu = 0;  // device of the node
  std::int64_t nic = 0;  // adapter of the node: devices share them in blocks of neighbours
  std::int64_t dp = 0;
  std::int64_t pp = 0;
  std::int64_t cp = 0;
  std::int64_t tp = 0;
  std::int64_t ep = 0;  // which part of the experts it holds
};

enum class MeshAxis : std::uint8_t { kTp, kCp, kPp, kDp, kEp };
std::string_view name(MeshAxis axis);  // "tp", "cp", "pp", "dp", "ep"
inline constexpr MeshAxis kMeshAxes[] = {MeshAxis::kTp, MeshAxis::kCp, MeshAxis::kPp, MeshAxis::kDp,
                                         MeshAxis::kEp};

// The arithmetic of one mesh, in the order of parallel.order. Ranks fill nodes one after the other.
// Experts: the dp·cp·tp ranks of a stage are taken expert_tp at a time for one expert, then ep at a
// time for all of them (as Megatron-Core does). Precondition: check_mesh finds no error.
class RankMap {
 public:
  explicit RankMap(const Config& config);

  std::int64_t ranks() const { return dp_ * tp_ * cp_ * pp_; }
  std::int64_t nodes() const { return ranks() / gpus_per_node_; }
  RankPlace place(std::int64_t rank) const;
  std::int64_t group_size(MeshAxis axis) const;
  std::int64_t group_count(MeshAxis axis) const { return ranks() / group_size(axis); }
  // Ranks of a group, ascending. Groups are numbered by their first rank, those of ep stage by
  // stage.
  std::vector<std::int64_t> members(MeshAxis axis, std::int64_t group) const;
  // The first and the last rank of a pipeline, which sum the gradient of the embedding that the
  // head shares; empty when they share none. As many groups as of pp.
  std::vector<std::int64_t> embedding_members(std::int64_t group) const;
  // The most nodes that a group of the axis touches.
  std::int64_t nodes_of_group(MeshAxis axis) const;

 private:
  std::int64_t stride(MeshAxis axis) const;
  std::vector<std::int64_t> expert_group(std::int64_t group) const;

  std::int64_t dp_, tp_, cp_, pp_, ep_, expert_tp_;
  std::int64_t gpus_per_node_, nics_per_node_;
  MeshOrder order_;
  bool tied_ends_;
};

// The map as text: a line a rank and the members of every group; of a world of more than 64 ranks
// the first and the last node, and of more than eight groups the first three and the last. Ends in
// a newline.
std::string render_rank_map(const Config& config);

// An Open MPI rankfile (`mpirun --rankfile FILE`): a rank is bound to train.threads slots beside
// those of the ranks before it on its node. `hosts` names the nodes in order; empty: localhost for
// a single node, else "+n0", "+n1", …, the hosts of the allocation that a batch system made.
// Precondition: as many hosts as nodes, or none.
std::string open_mpi_rankfile(const Config& config, const std::vector<std::string>& hosts);

}  // namespace nqd::planner
