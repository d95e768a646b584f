// What algorithms take from their communicator's scratch is what the planner budgets.
#include "collectives/cost_scratch.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/cost.h"
#include "collectives/shared/shared_buffer.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

struct Case {
  Collective collective;
  Algorithm algorithm;
};

const std::vector<Case> kCases = {
    {Collective::kAllReduce, Algorithm::kRing},
    {Collective::kAllReduce, Algorithm::kTree},
    {Collective::kAllReduce, Algorithm::kRecursiveDoubling},
    {Collective::kAllReduce, Algorithm::kHalvingDoubling},
    {Collective::kAllReduce, Algorithm::kPairwise},
    {Collective::kAllReduce, Algorithm::kDirect},
    {Collective::kReduceScatter, Algorithm::kRing},
    {Collective::kReduceScatter, Algorithm::kHalvingDoubling},
    {Collective::kReduceScatter, Algorithm::kPairwise},
    {Collective::kReduceScatter, Algorithm::kDirect},
    {Collective::kAllGather, Algorithm::kRing},
    {Collective::kAllGather, Algorithm::kDirect},
    {Collective::kAllToAll, Algorithm::kPairwise},
};

// Bytes that the communicator holds after one call on `count` floats, in place where it reduces to
// all, in shared buffers.
std::uint64_t taken(Communicator& world, const Case& call, std::size_t count) {
  MemoryLedger ledger;
  world.set_ledger(&ledger);
  const auto rank = static_cast<std::size_t>(world.rank());
  const auto n = static_cast<std::size_t>(world.size());
  const std::size_t own = chunk_of(count, n, rank).count;
  SharedBuffer full(nullptr, MemoryTag::kWorkspace, std::max<std::size_t>(count * 4, 4));
  SharedBuffer part(nullptr, MemoryTag::kWorkspace, std::max<std::size_t>(n * own * 4, 4));
  const std::span<std::byte> vector(full.data(), count * 4);
  const std::span<std::byte> chunk(part.data(), own * 4);
  switch (call.collective) {
    case Collective::kAllReduce:
      world.all_reduce(vector, vector, DType::kFloat32, ReduceOp::kSum, call.algorithm);
      break;
    case Collective::kReduceScatter:
      world.reduce_scatter(vector, chunk, DType::kFloat32, ReduceOp::kSum, call.algorithm);
      break;
    case Collective::kAllGather:
      world.all_gather(chunk, vector, DType::kFloat32, call.algorithm);
      break;
    default:
      world.all_to_all(vector, {part.data(), n * own * 4}, DType::kFloat32, call.algorithm);
  }
  world.barrier();
  const std::uint64_t held = ledger.current_bytes(MemoryTag::kCommunication);
  world.set_ledger(nullptr);
  return held;
}

TEST_CASE("a communicator holds as much scratch as its calls are said to take") {
  for (const int ranks : {1, 2, 3, 4, 6, 7}) {
    run_threads(ranks, {}, [&](Communicator& world) {
      const auto n = static_cast<std::size_t>(ranks);
      const auto rank = static_cast<std::size_t>(world.rank());
      for (const Case& call : kCases) {
        if (!has_cost(call.collective, call.algorithm, n)) continue;
        // Empty, shorter than the ranks, ragged, at and beyond the small ones, in several pieces.
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{5}, std::size_t{1001}, std::size_t{2048},
              std::size_t{2049}, std::size_t{300'001}}) {
          INFO(name(call.algorithm), " ", name(call.collective), " of ", count, " on ", ranks,
               ", rank ", rank);
          CHECK(taken(world, call, count) ==
                scratch_bytes(call.collective, call.algorithm, n, rank, count, 4));
        }
      }
    });
  }
}

TEST_CASE("scratch that is not listed is refused") {
  CHECK_THROWS_AS(scratch_bytes(Collective::kAllReduce, Algorithm::kHierarchical, 4, 0, 8, 4),
                  Error);
  CHECK_THROWS_AS(scratch_bytes(Collective::kBroadcast, Algorithm::kTree, 4, 0, 8, 4), Error);
}

}  // namespace
}  // namespace nqd::collectives
