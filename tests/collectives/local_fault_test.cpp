// Faults among threads: nobody waits for ever, and the cause is what is reported.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "collectives/world.h"

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;

void reduce(Communicator& group, std::size_t count = 1000) {
  std::vector<float> data(count, 1.0f);
  const auto bytes = writable_bytes_of(std::span(data));
  group.all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum);
}

// Runs `body`, which must fail, and returns the error.
Error error_of(int ranks, std::chrono::milliseconds deadline,
               const std::function<void(Communicator&)>& body) {
  try {
    run_threads(ranks, {.ranks = {}, .deadline = deadline}, body);
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::kOk, "none", "no error"};
}

TEST_CASE("a rank that throws is named to the others, and its error is the world's") {
  std::array<std::string, 4> messages;
  const auto start = Clock::now();
  const Error error = error_of(4, std::chrono::seconds(30), [&](Communicator& world) {
    const auto group = world.split(0, 0, "dp");
    reduce(*group);
    if (world.rank() == 2) throw Error(ExitCode::kUsage, "NQD2001", "file gone");
    try {
      reduce(*group);
      group->barrier();
      FAIL("rank 2 took no part");
    } catch (const PeerLostError& lost) {
      CHECK(lost.lost_rank() == 2);
      messages[static_cast<std::size_t>(world.rank())] = lost.what();
      // Every later call fails too.
      CHECK_THROWS_AS(world.barrier(), PeerLostError);
      throw;
    }
  });
  CHECK(error.code() == "NQD2001");
  CHECK(error.exit_code() == ExitCode::kUsage);
  for (const int rank : {0, 1, 3}) {
    CHECK(messages[static_cast<std::size_t>(rank)].starts_with("rank 2 (host "));
    CHECK(messages[static_cast<std::size_t>(rank)].ends_with(") failed: file gone"));
  }
  CHECK(Clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("a fault reaches asynchronous work and calls queued behind it") {
  std::atomic<int> caught = 0;
  error_of(2, std::chrono::seconds(30), [&](Communicator& world) {
    if (world.rank() == 1) throw Error(ExitCode::kNo, "NQD3005", "no");
    std::vector<float> data(100'000, 1.0f);
    const auto bytes = writable_bytes_of(std::span(data));
    Work first = world.all_reduce_async(bytes, DType::kFloat32, ReduceOp::kSum);
    Work second = world.all_reduce_async(bytes, DType::kFloat32, ReduceOp::kSum);
    for (const auto& wait : {std::function<void()>([&] { world.barrier(); }),
                             std::function<void()>([&] { second.wait(); }),
                             std::function<void()>([&] { first.wait(); })}) {
      try {
        wait();
      } catch (const PeerLostError&) {
        ++caught;
      }
    }
  });
  CHECK(caught == 3);
}

TEST_CASE("a rank whose body returned is missed at once, not at the deadline") {
  const auto start = Clock::now();
  const Error error = error_of(3, std::chrono::seconds(30), [](Communicator& world) {
    if (world.rank() != 1) reduce(world);
  });
  CHECK(error.code() == "NQD4001");
  CHECK(std::string(error.what()).find("rank 1 (host ") == 0);
  CHECK(std::string(error.what()).find("ended its part of the run while rank") !=
        std::string::npos);
  CHECK(Clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("a rank that does not arrive is named at the deadline") {
  std::vector<int> waiting_for;
  const Error error = error_of(3, std::chrono::milliseconds(200), [&](Communicator& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    try {
      reduce(world);
    } catch (const TimeoutError& late) {
      if (world.rank() == 0) waiting_for = late.waiting_for();
      throw;
    }
  });
  CHECK(error.code() == "NQD4002");
  REQUIRE_FALSE(waiting_for.empty());
  CHECK(waiting_for.front() == 1);
}

TEST_CASE("parts that two ranks do not agree on are an error, empty ones too") {
  for (const Algorithm algorithm : {Algorithm::kPairwise, Algorithm::kDirect}) {
    const Error error = error_of(2, std::chrono::seconds(5), [&](Communicator& world) {
      const std::size_t rank_0_gives[] = {1, 3};
      const std::size_t rank_1_takes[] = {0, 0};
      const std::size_t from_rank_1[] = {1, 0};
      std::vector<float> given(4);
      std::vector<float> taken(1);
      if (world.rank() == 0) {
        world.all_to_all_v(bytes_of(std::span<const float>(given)), rank_0_gives,
                           writable_bytes_of(std::span(taken)), from_rank_1, DType::kFloat32,
                           algorithm);
      } else {
        world.all_to_all_v({}, rank_1_takes, {}, rank_1_takes, DType::kFloat32, algorithm);
      }
    });
    CHECK(error.code() == "NQD4005");
  }
}

TEST_CASE("ranks that disagree about the length are told so") {
  const Error error = error_of(2, std::chrono::seconds(5), [](Communicator& world) {
    reduce(world, world.rank() == 0 ? 1000 : 2000);
  });
  CHECK(error.code() == "NQD4005");
  CHECK(error.exit_code() == ExitCode::kFault);
}

TEST_CASE("of copies of one error the loud one is the world's") {
  for (int speaker = 0; speaker < 3; ++speaker) {
    const Error error = error_of(3, std::chrono::seconds(5), [&](Communicator& world) {
      world.barrier();
      Error copy(ExitCode::kUsage, "NQD2002", "cannot be written");
      copy.set_quiet(world.rank() != speaker);
      throw copy;
    });
    CHECK_FALSE(error.quiet());
    CHECK(error.code() == "NQD2002");
  }
}

TEST_CASE("ranks that agreed to stop all get their own error, not a lost peer") {
  // The first to leave the agreement fails the world while others still receive it.
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::atomic<int> own = 0;
    error_of(5, std::chrono::seconds(5), [&](Communicator& world) {
      reduce(world, 5000);
      ++own;
      throw Error(ExitCode::kUsage, "NQD2002", "agreed");
    });
    CHECK(own == 5);
  }
}

TEST_CASE("arguments are checked before anything is sent") {
  run_threads(2, {}, [](Communicator& world) {
    std::vector<std::byte> bytes(16);
    CHECK_THROWS_AS(world.all_reduce(bytes, bytes, DType::kInt32, ReduceOp::kAvg), Error);
    CHECK_THROWS_AS(world.all_gather(bytes, bytes, DType::kFloat32), Error);
    CHECK_THROWS_AS(world.broadcast(bytes, 2), Error);
    CHECK_THROWS_AS(world.send(bytes, -1), Error);
    world.barrier();
  });
}

}  // namespace
}  // namespace nqd::collectives
