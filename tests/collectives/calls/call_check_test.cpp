// --check-calls: whatever differs between the ranks' calls is named, to every rank.
#include "collectives/call_check.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/host.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

constexpr std::size_t kCount = 24;

// A rank of three that makes calls over vectors of its own.
struct Caller {
  Communicator& world;
  std::vector<std::byte> full = std::vector<std::byte>(kCount * 4);
  std::vector<std::byte> part = std::vector<std::byte>(kCount * 4 / 3);

  void all_reduce(std::size_t count = kCount, DType type = DType::kFloat32,
                  ReduceOp op = ReduceOp::kSum, Algorithm algorithm = Algorithm::kRing) {
    const auto data = std::span(full).first(count * size_bytes(type));
    world.all_reduce(data, data, type, op, algorithm);
  }
};
using Call = std::function<void(Caller&)>;

// What three ranks report when rank 1 makes call `odd` and the others `usual`.
std::string difference(const Call& usual, const Call& odd) {
  try {
    run_threads(3, {.ranks = {}, .check_calls = true}, [&](Communicator& world) {
      Caller caller{world};
      caller.all_reduce();
      (world.rank() == 1 ? odd : usual)(caller);
    });
  } catch (const Error& error) {
    CHECK(error.code() == "NQD4005");
    CHECK(error.exit_code() == ExitCode::kFault);
    return error.what();
  }
  return "no error";
}

std::string expected(const std::string& odd, const std::string& usual) {
  const std::string host = read_host_info().hostname;
  return "ranks of group world make different calls: rank 1 on host " + host + " calls " + odd +
         "; rank 0 on host " + host + " calls " + usual;
}

const Call kUsual = [](Caller& rank) { rank.all_reduce(); };
const std::string kUsualText = "#2: all_reduce of 96 bytes of float32, sum by ring";

TEST_CASE("another count, type, operator, algorithm or collective is named") {
  CHECK(difference(kUsual, [](Caller& rank) { rank.all_reduce(12); }) ==
        expected("#2: all_reduce of 48 bytes of float32, sum by ring", kUsualText));
  CHECK(difference(kUsual, [](Caller& rank) { rank.all_reduce(kCount, DType::kInt32); }) ==
        expected("#2: all_reduce of 96 bytes of int32, sum by ring", kUsualText));
  CHECK(difference(kUsual, [](Caller& rank) {
          rank.all_reduce(kCount, DType::kFloat32, ReduceOp::kMax);
        }) == expected("#2: all_reduce of 96 bytes of float32, max by ring", kUsualText));
  CHECK(difference(kUsual, [](Caller& rank) {
          rank.all_reduce(kCount, DType::kFloat32, ReduceOp::kSum, Algorithm::kTree);
        }) == expected("#2: all_reduce of 96 bytes of float32, sum by tree", kUsualText));
  CHECK(difference(kUsual, [](Caller& rank) { rank.world.barrier(); }) ==
        expected("#2: barrier of 0 bytes of uint8", kUsualText));
  CHECK(difference(kUsual, [](Caller& rank) { rank.world.split(0, 0, "dp"); }) ==
        expected("split", kUsualText));
}

TEST_CASE("another root or order is named") {
  const auto broadcast = [](int root) {
    return [root](Caller& rank) { rank.world.broadcast(rank.full, root); };
  };
  CHECK(difference(broadcast(0), broadcast(2)) ==
        expected("#2: broadcast of 96 bytes of uint8 from rank 2 by direct",
                 "#2: broadcast of 96 bytes of uint8 from rank 0 by direct"));
  const Call reduce_first = [&](Caller& rank) {
    rank.all_reduce();
    broadcast(0)(rank);
  };
  const Call broadcast_first = [&](Caller& rank) {
    broadcast(0)(rank);
    rank.all_reduce();
  };
  CHECK(difference(reduce_first, broadcast_first) ==
        expected("#2: broadcast of 96 bytes of uint8 from rank 0 by direct", kUsualText));
}

TEST_CASE("a part that is not the root's is named") {
  const auto gather = [](std::size_t bytes) {
    return [bytes](Caller& rank) {
      rank.world.gather(std::span(rank.part).first(bytes), rank.full, DType::kUInt8, 0);
    };
  };
  CHECK(difference(gather(32), gather(32)) == "no error");
  CHECK(difference(gather(32), gather(31)) ==
        expected("#2: gather of 31 bytes of uint8 to rank 0 by direct",
                 "with a full vector of 96 bytes, of which that rank's part is 32"));
}

TEST_CASE("equal calls pass, also in a split group and with parts that differ by an element") {
  run_threads(3, {.ranks = {}, .check_calls = true}, [](Communicator& world) {
    Caller rank{world};
    const auto pair = world.split(world.rank() == 2 ? 1 : 0, 0, "pair");
    pair->all_reduce(rank.full, rank.full, DType::kFloat32, ReduceOp::kSum);
    const Chunk mine = chunk_of(95, 3, static_cast<std::size_t>(world.rank()));
    const auto part = std::span(rank.part).first(mine.count);
    world.scatter(std::span(rank.full).first(95), part, DType::kUInt8, 2);
    world.all_gather(part, std::span(rank.full).first(95), DType::kUInt8);
    world.all_reduce_async(rank.full, DType::kFloat32, ReduceOp::kSum).wait();
    CHECK(world.traffic().at({"world", Collective::kAllReduce}).calls == 1);
  });
}

}  // namespace
}  // namespace nqd::collectives
