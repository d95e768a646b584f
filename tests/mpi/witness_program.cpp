// What witness_test.py runs under the PMPI witness: every kind of collective, in the world and in
// split groups. Prints "RANK BYTES MESSAGES" from nqd's own counters to $NQD_COUNTERS.RANK.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "collectives/world.h"

namespace {

using namespace nqd::collectives;

void add(const Traffic& traffic, TrafficCount& sum) {
  for (const auto& [key, count] : traffic) {
    sum.bytes_sent += count.bytes_sent;
    sum.messages += count.messages;
  }
}

void exercise(Communicator& group) {
  // None so long that it travels in pieces, which the library counts apart.
  for (const std::size_t count : {0u, 1u, 1009u, 120'000u}) {
    std::vector<float> full(count, 1.0f);
    const Chunk mine = chunk_of(count, unsigned(group.size()), unsigned(group.rank()));
    std::vector<float> shard(mine.count);
    const auto all = writable_bytes_of(std::span(full));
    const auto part = writable_bytes_of(std::span(shard));
    group.all_reduce(all, all, nqd::DType::kFloat32, ReduceOp::kMax, Algorithm::kRing);
    group.all_reduce(all, all, nqd::DType::kFloat32, ReduceOp::kMax, Algorithm::kTree);
    group.all_reduce(all, all, nqd::DType::kFloat32, ReduceOp::kMax, Algorithm::kLibrary);
    group.all_reduce_async(all, nqd::DType::kFloat32, ReduceOp::kMax, Algorithm::kRing).wait();
    group.reduce_scatter(all, part, nqd::DType::kFloat32, ReduceOp::kMax, Algorithm::kRing);
    group.all_gather(part, all, nqd::DType::kFloat32, Algorithm::kRing);
    group.broadcast(all, 0, Algorithm::kTree);
    group.barrier();
  }
}

void run(Communicator& world) {
  TrafficCount sum;
  exercise(world);
  const auto half = world.split(world.rank() % 2, 0, "half");
  exercise(*half);
  add(half->traffic(), sum);
  add(world.traffic(), sum);
  nqd::write_file(std::string(std::getenv("NQD_COUNTERS")) + "." + std::to_string(world.rank()),
                  std::to_string(world.rank()) + " " + std::to_string(sum.bytes_sent) + " " +
                      std::to_string(sum.messages) + "\n");
}

}  // namespace

int main() {
  try {
    run_world({}, run);
  } catch (const nqd::Error& error) {
    nqd::log::error(error.code() + " " + error.what());
    abort_process(static_cast<int>(error.exit_code()));
  }
  return 0;
}
