#include "collectives/types.h"

#include <array>
#include <utility>

namespace nqd::collectives {
namespace {

constexpr std::array<std::pair<Collective, std::string_view>, 10> kCollectives = {
    {{Collective::kAllReduce, "all_reduce"},
     {Collective::kAllGather, "all_gather"},
     {Collective::kReduceScatter, "reduce_scatter"},
     {Collective::kBroadcast, "broadcast"},
     {Collective::kBarrier, "barrier"},
     {Collective::kSendRecv, "send_recv"},
     {Collective::kReduce, "reduce"},
     {Collective::kAllToAll, "all_to_all"},
     {Collective::kGather, "gather"},
     {Collective::kScatter, "scatter"}}};
constexpr std::array<std::pair<ReduceOp, std::string_view>, 5> kOps = {{{ReduceOp::kSum, "sum"},
                                                                        {ReduceOp::kAvg, "avg"},
                                                                        {ReduceOp::kMin, "min"},
                                                                        {ReduceOp::kMax, "max"},
                                                                        {ReduceOp::kProd, "prod"}}};
constexpr std::array<std::pair<Algorithm, std::string_view>, 13> kAlgorithms = {
    {{Algorithm::kAuto, "auto"},
     {Algorithm::kRing, "ring"},
     {Algorithm::kTree, "tree"},
     {Algorithm::kLibrary, "library"},
     {Algorithm::kDoubleBinaryTree, "double_binary_tree"},
     {Algorithm::kRecursiveDoubling, "recursive_doubling"},
     {Algorithm::kHalvingDoubling, "halving_doubling"},
     {Algorithm::kHierarchical, "hierarchical"},
     {Algorithm::kNvls, "nvls"},
     {Algorithm::kPairwise, "pairwise"},
     {Algorithm::kBruck, "bruck"},
     {Algorithm::kDirect, "direct"},
     {Algorithm::kLinear, "linear"}}};

template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& [entry, text] : table) {
    if (entry == value) return text;
  }
  return "?";
}

template <typename Value, std::size_t N>
std::optional<Value> value_in(const std::array<std::pair<Value, std::string_view>, N>& table,
                              std::string_view text) {
  for (const auto& [entry, entry_text] : table) {
    if (entry_text == text) return entry;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(Collective collective) { return name_in(kCollectives, collective); }
std::string_view name(ReduceOp op) { return name_in(kOps, op); }
std::string_view name(Algorithm algorithm) { return name_in(kAlgorithms, algorithm); }
std::optional<Collective> parse_collective(std::string_view text) {
  return value_in(kCollectives, text);
}
std::optional<ReduceOp> parse_reduce_op(std::string_view text) { return value_in(kOps, text); }
std::optional<Algorithm> parse_algorithm(std::string_view text) {
  return value_in(kAlgorithms, text);
}

}  // namespace nqd::collectives
