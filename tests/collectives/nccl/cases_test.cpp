// The shared cases over NCCL and over staged buffers, on emulated devices.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/cost.h"
#include "collectives/device/staged.h"
#include "collectives/host_map.h"
#include "collectives/nccl/bootstrap.h"
#include "collectives/nccl/sessions.h"
#include "collectives/world.h"
#include "tests/cases/collectives_cases.h"
#include "tests/collectives/nccl/emulated_device.h"
#include "tests/collectives/nccl/emulated_nccl.h"

namespace nqd::collectives {
namespace {

using Buffers = StagingOptions::Buffers;

// Runs the cases on a communicator that `make` gives each rank of a world of threads.
template <typename Make>
void run_cases(int ranks, const Make& make, bool takes_any_algorithm = false) {
  CAPTURE(ranks);
  std::mutex mutex;
  std::vector<CaseReport> reports;
  run_threads(ranks, {}, [&](Communicator& world) {
    const std::unique_ptr<Communicator> communicator = make(world);
    CaseReport report = run_collectives_cases(*communicator);
    const std::lock_guard lock(mutex);
    reports.push_back(std::move(report));
  });
  REQUIRE(reports.size() == static_cast<std::size_t>(ranks));
  for (const CaseReport& report : reports) {
    CHECK(report.checks > 1000);
    for (const std::string& failure : report.failures) {
      if (takes_any_algorithm && failure.ends_with("is refused")) continue;
      FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("every case over NCCL") {
  for (const int ranks : {1, 2, 3, 4}) {
    emulated::Device device(ranks);
    emulated::Nccl nccl;
    run_cases(ranks, [&](Communicator& world) { return open_nccl(world, device, nccl, {}); });
    CHECK(device.live() == 0);
    CHECK(nccl.live() == 0);
    CHECK(nccl.aborted() == 0);
  }
}

// The default stream of the emulation is the host itself, which so waits for what it is put behind.
TEST_CASE("every case over NCCL ordered by streams") {
  emulated::Device device(3);
  emulated::Nccl nccl;
  const auto make = [&](Communicator& world) {
    NcclOptions options;
    options.stream_ordered = true;
    options.sessions = std::make_shared<NcclSessions>(nccl);
    return open_nccl(world, device, nccl, options);
  };
  run_cases(3, make, true);
  CHECK(device.live() == 0);
  CHECK(nccl.live() == 0);
  CHECK(nccl.aborted() == 0);
}

TEST_CASE("every case on host buffers over NCCL") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  run_cases(2, [&](Communicator& world) {
    return std::make_unique<StagedCommunicator>(open_nccl(world, device, nccl, {}), device,
                                                StagingOptions{.buffers = Buffers::kHost});
  });
  CHECK(device.live() == 0);
}

TEST_CASE("every case on device buffers over threads") {
  emulated::Device device(1);
  run_cases(2, [&](Communicator& world) {
    return std::make_unique<StagedCommunicator>(world, device, StagingOptions{});
  });
  CHECK(device.live() == 0);
}

// A sum, a reduction and a broadcast of a vector that is long against its pieces.
void run_in_pieces(Communicator& world, DeviceApi& device, Algorithm algorithm) {
  constexpr std::size_t kCount = 100'003;
  StagedCommunicator staged(world, device, {.piece_bytes = 30'000});
  const auto n = static_cast<std::size_t>(world.size());
  const int last = world.size() - 1;
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<std::int64_t> in(kCount);
  std::vector<std::int64_t> sum(kCount);
  for (std::size_t i = 0; i < kCount; ++i) in[i] = static_cast<std::int64_t>(i * (rank + 1));
  const auto is_sum = [&] {
    bool right = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      right = right && sum[i] == static_cast<std::int64_t>(i * (n * (n + 1) / 2));
    }
    return right;
  };
  const auto given = bytes_of(std::span<const std::int64_t>(in));
  const auto taken = writable_bytes_of(std::span(sum));
  staged.all_reduce(given, taken, DType::kInt64, ReduceOp::kSum, algorithm);
  CHECK(is_sum());
  const TrafficCount sent = staged.traffic().at({"world", Collective::kAllReduce});
  const RankTraffic cost =
      rank_traffic(host_map_of(world), Collective::kAllReduce, algorithm, rank, kCount, 8);
  CHECK(sent.calls == 1);
  CHECK(sent.messages == cost.messages);
  CHECK(sent.bytes_sent == cost.bytes_sent);
  // It did travel in pieces.
  CHECK(world.traffic().at({"world", Collective::kAllReduce}).calls > 1);
  staged.reset_traffic();
  std::fill(sum.begin(), sum.end(), 0);
  staged.reduce(given, world.rank() == last ? taken : std::span<std::byte>{}, DType::kInt64,
                ReduceOp::kSum, last);
  CHECK((world.rank() != last || is_sum()));
  staged.broadcast(taken, last);
  CHECK(is_sum());
  CHECK(staged.traffic().at({"world", Collective::kBroadcast}).calls == 1);
}

TEST_CASE("vectors in pieces are summed and counted as one") {
  emulated::Device device(1);
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kDirect, Algorithm::kHalvingDoubling, Algorithm::kPairwise,
        Algorithm::kTree}) {
    CAPTURE(name(algorithm));
    run_threads(3, {}, [&](Communicator& world) { run_in_pieces(world, device, algorithm); });
  }
  WorldOptions hosts;
  hosts.pretended_hosts = {"a", "b", "a", "a", "b"};
  run_threads(5, hosts,
              [&](Communicator& world) { run_in_pieces(world, device, Algorithm::kHierarchical); });
}

TEST_CASE("a call waits for the compute stream, and another stream for the call") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  run_threads(2, {}, [&](Communicator& world) {
    const OwnedStream compute = make_stream(device);
    const auto nccl_world = open_nccl(world, device, nccl, {.compute = compute.get()});
    std::vector<float> data(100, 0);
    float seen = 0;
    emulated::Device::put(compute.get(), [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      data.assign(100, 1);
    });
    const CollectiveCall call{Collective::kAllReduce, bytes_of(std::span<const float>(data)),
                              writable_bytes_of(std::span(data)), DType::kFloat32};
    StreamWork work = nccl_world->enqueue(call);
    work.order(compute.get());
    emulated::Device::put(compute.get(), [&] { seen = data[99]; });
    const OwnedEvent end = make_event(device);
    device.record(end.get(), compute.get());
    nccl_world->session().wait(end.get(), {});
    CHECK(seen == 2);
    work.wait();
    CHECK(work.elapsed_s() >= 0);
  });
}

TEST_CASE("staged copies wait for the compute stream") {
  emulated::Device device(1);
  run_threads(2, {}, [&](Communicator& world) {
    const OwnedStream compute = make_stream(device);
    StagedCommunicator staged(world, device, {.compute = compute.get()});
    std::vector<float> data(1000, 0);
    emulated::Device::put(compute.get(), [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      data.assign(1000, 1);
    });
    staged.all_reduce_async(writable_bytes_of(std::span(data)), DType::kFloat32, ReduceOp::kSum)
        .wait();
    CHECK(data[999] == 2);
  });
}

TEST_CASE("calls put on a stream of the caller can be captured and launched again") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  run_threads(2, {}, [&](Communicator& world) {
    const auto nccl_world = open_nccl(world, device, nccl, {});
    const auto twin = nccl_world->blocking_twin();
    const NcclBuffer buffer = twin->allocate(4 * sizeof(std::int32_t));
    CHECK(buffer.registered());
    const std::span<std::int32_t> data(reinterpret_cast<std::int32_t*>(buffer.bytes().data()), 4);
    std::ranges::fill(data, 1 + world.rank());
    const CollectiveCall call{Collective::kAllReduce, buffer.bytes(), buffer.bytes(),
                              DType::kInt32};
    CHECK(twin->estimate_s(call) == doctest::Approx(1e-6));
    const OwnedStream stream = make_stream(device);
    device.begin_capture(stream.get());
    twin->put(call, stream.get());
    const OwnedGraph graph(device, device.end_capture(stream.get()));
    for (int launch = 0; launch < 2; ++launch) device.launch(graph.get(), stream.get());
    const OwnedEvent end = make_event(device);
    device.record(end.get(), stream.get());
    twin->session().wait(end.get(), {});
    CHECK(data[3] == 6);  // (1 + 2), and that twice
  });
  CHECK(nccl.live() == 0);
}

TEST_CASE("calls ordered by streams hold up the compute stream, not the host") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  run_threads(2, {}, [&](Communicator& world) {
    const OwnedStream compute = make_stream(device);
    NcclOptions options;
    options.compute = compute.get();
    options.stream_ordered = true;
    options.sessions = std::make_shared<NcclSessions>(nccl);
    std::vector<float> data(100, 0);
    std::atomic<bool> open = false;
    float seen = 0;
    {
      const auto group = open_nccl(world, device, nccl, options)->split(0, world.rank(), "dp");
      emulated::Device::put(compute.get(), [&] {
        while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        data.assign(100, 1);
      });
      const std::span<std::byte> bytes = writable_bytes_of(std::span(data));
      {
        // Goes without a wait.
        const Work work = group->all_reduce_async(bytes, DType::kFloat32, ReduceOp::kSum);
      }
      group->all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum, Algorithm::kRing);
      emulated::Device::put(compute.get(), [&] { seen = data[99]; });
      CHECK_NOTHROW(options.sessions->look());
      CHECK(options.sessions->take_stood_s("dp") == 0);
      // Nothing of this has begun.
      world.barrier();
      CHECK(data[99] == 0);
      open = true;
      group->barrier();
      const OwnedEvent end = make_event(device);
      device.record(end.get(), compute.get());
      while (!device.is_complete(end.get())) std::this_thread::yield();
      CHECK(seen == 4);
      CHECK(options.sessions->take_stood_s("dp") > 0);
      CHECK(options.sessions->take_stood_s("dp") == 0);
      CHECK(options.sessions->take_stood_s("tp") == 0);
    }
    CHECK_NOTHROW(options.sessions->look());
  });
  CHECK(nccl.live() == 0);
  CHECK(nccl.aborted() == 0);
}

TEST_CASE("memory of a rank is known to all its communicators, later ones too") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  run_threads(2, {}, [&](Communicator& world) {
    NcclOptions options;
    options.sessions = std::make_shared<NcclSessions>(nccl);
    const auto nccl_world = open_nccl(world, device, nccl, options);
    const auto live = [&] {
      world.barrier();
      const int found = nccl.live();
      world.barrier();
      return found;
    };
    CHECK(live() == 2);
    std::byte* const memory = options.sessions->allocate(100);
    REQUIRE(memory != nullptr);
    CHECK(live() == 2 + 2 * 2);  // the memory, and that the world knows it
    {
      const auto part = nccl_world->split(0, world.rank(), "dp");
      CHECK(live() == 2 + 2 * 2 + 2 * 2);
    }
    CHECK(live() == 2 + 2 * 2);
    options.sessions->release(memory);
    CHECK(live() == 2);
    options.sessions->allocate(100);  // is released at the end
  });
  CHECK(nccl.live() == 0);
  nccl.set_allocates(false);
  CHECK(NcclSessions(nccl).allocate(100) == nullptr);
}

TEST_CASE("memory that NCCL does not give is the device's") {
  emulated::Device device(1);
  emulated::Nccl nccl;
  nccl.set_allocates(false);
  run_threads(1, {}, [&](Communicator& world) {
    const auto nccl_world = open_nccl(world, device, nccl, {});
    const NcclBuffer buffer = nccl_world->allocate(64);
    CHECK(buffer.bytes().size() == 64);
  });
  CHECK(device.live() == 0);
}

}  // namespace
}  // namespace nqd::collectives
