// How ranks meet for NCCL, and what becomes of them when one is late, fails or is lost.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "collectives/nccl/bootstrap.h"
#include "collectives/world.h"
#include "tests/collectives/nccl/emulated_device.h"
#include "tests/collectives/nccl/emulated_nccl.h"
#include "tests/temporary_folder.h"

namespace nqd::collectives {
namespace {

using namespace std::chrono_literals;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Sums {
  std::vector<float> data = std::vector<float>(64, 1);
  CollectiveCall call() {
    return {Collective::kAllReduce, bytes_of(std::span<const float>(data)),
            writable_bytes_of(std::span(data)), DType::kFloat32};
  }
};

TEST_CASE("ranks that share a device are named before NCCL starts") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  std::string message;
  std::string hint;
  try {
    run_threads(3, {}, [&](Communicator& world) { open_nccl(world, device, nccl, {}); });
  } catch (const Error& error) {
    CHECK(error.code() == "NQD3063");
    CHECK(error.exit_code() == ExitCode::kEnvironment);
    message = error.what();
    hint = error.hint();
  }
  CHECK(contains(message, "ranks 0 and 2 on host"));
  CHECK(contains(message, "GPU-10101010-1010-1010-1010-101010101010"));
  CHECK(contains(message, "NCCL 2.28.9"));
  CHECK(contains(hint, "CUDA_VISIBLE_DEVICES"));
  CHECK(nccl.live() == 0);
}

TEST_CASE("several ranks on a device where NCCL takes them") {
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  emulated::Device device(1);
  emulated::Nccl nccl;
  CHECK_THROWS_AS(
      run_threads(2, {}, [&](Communicator& world) { open_nccl(world, device, nccl, {}); }), Error);
  nccl.set_version(23003);
  CHECK_NOTHROW(run_threads(2, {}, [&](Communicator& world) {
    Sums sums;
    open_nccl(world, device, nccl, {})->run(sums.call(), Algorithm::kAuto);
    CHECK(sums.data[63] == 2);
  }));
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST_CASE("without devices all ranks say so") {
  emulated::Device device(0);
  emulated::Nccl nccl;
  std::atomic<int> refused = 0;
  run_threads(2, {}, [&](Communicator& world) {
    try {
      open_nccl(world, device, nccl, {});
    } catch (const Error& error) {
      refused += error.code() == "NQD3060" && error.quiet() == (world.rank() != 0) ? 1 : 0;
    }
  });
  CHECK(refused == 2);
}

TEST_CASE("an error that NCCL reports ends the communicator after its last words") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  std::atomic<int> words = 0;
  std::atomic<int> seen = 0;
  run_threads(2, {}, [&](Communicator& world) {
    NcclOptions options;
    options.deadline = 200ms;
    options.last_words = [&](const Error&) { words += nccl.aborted() < 2 ? 1 : 0; };
    const auto nccl_world = open_nccl(world, device, nccl, options);
    Sums sums;
    nccl_world->run(sums.call(), Algorithm::kAuto);
    world.barrier();
    if (world.rank() == 0) nccl.fail(0, NcclResult::kInvalidUsage);
    try {
      nccl_world->run(sums.call(), Algorithm::kAuto);
      nccl_world->run(sums.call(), Algorithm::kAuto);
    } catch (const Error& error) {
      const std::string what = error.what();
      seen += error.code() == "NQD4012" && contains(what, "all_reduce #") &&
                      contains(what, "of group world") && contains(what, "emulated last error") &&
                      contains(what, "of rank " + std::to_string(world.rank()))
                  ? 1
                  : 0;
    }
    // What has failed stays so.
    CHECK_THROWS_AS(nccl_world->barrier(), Error);
    world.barrier();
  });
  CHECK(seen == 2);
  CHECK(words == 2);
  CHECK(nccl.aborted() == 2);
  CHECK(nccl.live() == 0);
}

TEST_CASE("a rank that fails elsewhere is named by those that wait in NCCL") {
  emulated::Device device(3);
  emulated::Nccl nccl;
  std::atomic<int> named = 0;
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS(run_threads(3, {},
                                   [&](Communicator& world) {
                                     const auto nccl_world = open_nccl(world, device, nccl, {});
                                     world.barrier();
                                     if (world.rank() == 1) {
                                       throw Error(ExitCode::kFault, "NQD4003", "disk full");
                                     }
                                     Sums sums;
                                     try {
                                       nccl_world->run(sums.call(), Algorithm::kAuto);
                                     } catch (const PeerLostError& lost) {
                                       named += lost.lost_rank() == 1 &&
                                                        contains(lost.what(), "disk full") &&
                                                        contains(lost.what(), "all_reduce #1")
                                                    ? 1
                                                    : 0;
                                       throw;
                                     }
                                   }),
                       "disk full", Error);
  CHECK(named == 2);
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  CHECK(nccl.live() == 0);
}

TEST_CASE("a rank that does not come in time is named") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  std::atomic<bool> late = false;
  run_threads(2, {}, [&](Communicator& world) {
    const auto nccl_world = open_nccl(world, device, nccl, {.deadline = 100ms});
    Sums sums;
    if (world.rank() == 1) {
      while (!late) std::this_thread::sleep_for(1ms);
      CHECK_THROWS_AS(nccl_world->run(sums.call(), Algorithm::kAuto), Error);
      return;
    }
    try {
      nccl_world->run(sums.call(), Algorithm::kAuto);
    } catch (const TimeoutError& timeout) {
      CHECK(timeout.waiting_for() == std::vector<int>{1});
      CHECK(contains(timeout.what(), "all_reduce #1 of group world"));
    } catch (const PeerLostError& lost) {
      FAIL_CHECK(lost.what());
    }
    late = true;
  });
  CHECK(late);
}

TEST_CASE("a start that never ends passes its deadline") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  NcclSession::Place place;
  place.group = "world";
  place.members = {{0, "a"}, {1, "b"}};
  NcclSession session(device, nccl, std::move(place), {.deadline = 50ms});
  NcclUniqueId id;
  nccl.unique_id(id);
  CHECK_THROWS_AS(session.start(id), TimeoutError);
  CHECK(nccl.aborted() == 1);
}

TEST_CASE("a lost device is told with the rank and the call") {
  emulated::Device device(1);
  emulated::Nccl nccl;
  run_threads(1, {}, [&](Communicator& world) {
    const auto nccl_world = open_nccl(world, device, nccl, {});
    device.lose();
    Sums sums;
    std::string what;
    try {
      nccl_world->run(sums.call(), Algorithm::kAuto);
    } catch (const Error& error) {
      CHECK(error.code() == "NQD4060");
      what = error.what();
    }
    CHECK(contains(what, "of rank 0 on host"));
    CHECK(contains(what, "all_reduce #1 of group world"));
  });
  CHECK(nccl.live() == 0);
}

TEST_CASE("ranks meet by files, whatever an earlier run has left") {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "meeting";
  write_file(path, "nqdmeet of an earlier run");
  write_file(path + ".2", "nqdmeet too");
  emulated::Device device(3);
  emulated::Nccl nccl;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        // A request of the last attempt is answered first, then the one that replaces it.
        if (rank == 1) std::this_thread::sleep_for(50ms);
        FileMeeting meeting{path, "job 7", rank, 3, "here", rank, 20s, {}};
        const std::array<std::byte, 2> mine = {std::byte(rank), std::byte(round)};
        const auto all = meet_by_files(meeting, mine);
        CHECK(all == std::vector{std::byte{0}, std::byte(round), std::byte{1}, std::byte(round),
                                 std::byte{2}, std::byte(round)});
        const auto nccl_world = open_nccl(meeting, device, nccl, {});
        Sums sums;
        nccl_world->run(sums.call(), Algorithm::kAuto);
        CHECK(sums.data[0] == 3);
        CHECK(nccl_world->host(2) == "here");
      });
    }
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an answer of an earlier run is not taken") {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "meeting";
  const std::array<std::byte, 1> mine{};
  const auto meet = [&](int rank, const std::function<void()>& meanwhile = {}) {
    try {
      meet_by_files({path, "a", rank, 2, "h", rank, 60ms, meanwhile}, mine);
    } catch (const Error& timeout) {
      CHECK(timeout.code() == "NQD4002");
      CHECK(contains(timeout.hint(), "--rendezvous"));
      return std::string(timeout.what());
    }
    return std::string("met");
  };
  const auto keep = [&](const std::string& from, const std::string& to) {
    return [=] {
      const auto always = std::filesystem::copy_options::overwrite_existing;
      if (std::filesystem::exists(from)) std::filesystem::copy_file(from, to, always);
    };
  };
  // Rank 1 gives up, rank 0 answers what a killed one would leave, and gives up waiting for it.
  const std::string request = folder / "request";
  const std::string answer = folder / "answer";
  CHECK(!contains(meet(1, keep(path + ".1", request)), "of another run"));
  CHECK(!std::filesystem::exists(path + ".1"));
  std::filesystem::rename(request, path + ".1");
  CHECK(contains(meet(0, keep(path, answer)), "for rank 1"));
  CHECK(!std::filesystem::exists(path));
  std::filesystem::rename(answer, path);
  CHECK(contains(meet(1), "of another run"));
  CHECK(std::filesystem::exists(path));
}

}  // namespace
}  // namespace nqd::collectives
