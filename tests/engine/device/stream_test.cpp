// The engine over NCCL, ordered by streams: the same steps as over messages that the host waits
// for, and other ones as soon as an edge between streams is missing.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/parallel/pipeline/phase_clock.h"
#include "tests/engine/device/stream_run.h"

namespace nqd::tests {
namespace {

using collectives::DeviceEvent;
using collectives::DeviceStream;
using planner::Config;
using planner::Engine;
using planner::ParallelSpec;

constexpr std::int64_t kSteps = 2;

SmallRun check_streams(const Config& model, const ParallelSpec& mesh) {
  const Config config = fast_on_mesh(model, mesh);
  INFO(planner::name(mesh.engine), ", dp ", mesh.dp, ", tp ", mesh.tp, ", pp ", mesh.pp, ", vpp ",
       mesh.vpp);
  const SmallRun expected = small_run(config, kSteps);
  collectives::emulated::Device api(static_cast<int>(mesh.ranks()));
  collectives::emulated::Nccl nccl;
  SmallRun found = small_run(config, kSteps, on_streams(api, nccl, config));
  CHECK(expected.losses.at(0) > 0);
  CHECK(found.losses == expected.losses);
  CHECK(found.norms == expected.norms);
  CHECK(found.weights == expected.weights);
  CHECK(found.saved == expected.saved);
  CHECK(found.has_planned_bytes);
  CHECK(found.stood_s > 0);
  CHECK(nccl.aborted() == 0);
  CHECK(nccl.live() == 0);
  CHECK(api.live() == 0);
  return found;
}

ParallelSpec pipeline(planner::Schedule schedule, std::int64_t vpp) {
  ParallelSpec spec = mesh(Engine::kDdp, 1, 1, 2);
  spec.schedule = schedule;
  spec.vpp = vpp;
  return spec;
}

TEST_CASE("data parallel engines on streams") {
  check_streams(small_gpt(), mesh(Engine::kDdp, 2));
  check_streams(small_gpt(), mesh(Engine::kZero1, 2));
  check_streams(small_llama(), mesh(Engine::kZero2, 2));
  check_streams(small_gpt(), mesh(Engine::kZero3, 2));
  ParallelSpec hybrid = mesh(Engine::kHsdp, 4);
  hybrid.hsdp_shard = 2;
  check_streams(small_llama(), hybrid);
}

TEST_CASE("tensors and stages on streams") {
  check_streams(small_llama(), mesh(Engine::kDdp, 1, 2));
  ParallelSpec split = mesh(Engine::kDdp, 1, 2);
  split.sequence_parallel = true;
  check_streams(small_gpt(), split);
  check_streams(small_gpt(), pipeline(planner::Schedule::k1F1B, 1));
  check_streams(small_gpt(), pipeline(planner::Schedule::kInterleaved, 2));
  check_streams(small_gpt(), mesh(Engine::kZero3, 2, 1, 2));
}

TEST_CASE("what a device waited by itself is nobody's work") {
  const engine::PhaseTimes of_host = {1, 2, 3, 4};
  CHECK(engine::on_device(of_host, 5) == engine::PhaseTimes{1, 0, 0, 4});
  CHECK(engine::on_device(of_host, 50) == engine::PhaseTimes{1, 0, 0, 0});
}

#if !defined(__SANITIZE_THREAD__)  // what is shown here are races

// A runtime that leaves an edge between streams out, and whose other side is slow enough to be
// overtaken, also on a machine that is busy.
class LooseDevice final : public collectives::emulated::Device {
 public:
  enum class Missing { kNone, kComputeBehindCall, kCallBehindCompute };
  LooseDevice(int ranks, Missing missing) : Device(ranks), ranks_(ranks), missing_(missing) {}

  void order(DeviceStream stream, DeviceEvent event) override {
    const bool is_compute = compute_streams_.contains(stream);
    const Missing edge = is_compute ? Missing::kComputeBehindCall : Missing::kCallBehindCompute;
    if (armed_ && edge == missing_) {
      ++left_out_;
      return;
    }
    Device::order(stream, event);
    // The first calls are slow, where nobody is behind them.
    if (armed_ && !is_compute && missing_ == Missing::kComputeBehindCall) {
      const bool first = slow_calls_++ < 4 * ranks_;
      put(stream,
          [first] { std::this_thread::sleep_for(std::chrono::milliseconds(first ? 30 : 1)); });
    }
  }
  // Once all ranks have one.
  void arm(std::set<DeviceStream> compute_streams) {
    compute_streams_ = std::move(compute_streams);
    armed_ = true;
    if (missing_ != Missing::kCallBehindCompute) return;
    // What computes begins when calls that are not behind it are long over.
    for (const DeviceStream stream : compute_streams_) {
      put(stream, [this] {
        while (left_out_ < ranks_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      });
    }
  }

 private:
  const int ranks_;
  const Missing missing_;
  std::set<DeviceStream> compute_streams_;
  std::atomic<bool> armed_ = false;
  std::atomic<int> left_out_ = 0;
  std::atomic<int> slow_calls_ = 0;
};

SmallRun loose_run(const Config& config, LooseDevice::Missing missing) {
  const auto ranks = static_cast<int>(config.parallel.ranks());
  LooseDevice api(ranks, missing);
  collectives::emulated::Nccl nccl;
  SmallRunOptions options = on_streams(api, nccl, config);
  std::mutex mutex;
  std::set<DeviceStream> compute_streams;
  std::barrier all_joined(ranks, [&]() noexcept { api.arm(compute_streams); });
  options.join = [&, join = options.join](collectives::Communicator& world,
                                          engine::MeshGroups& groups) {
    RankDevice joined = join(world, groups);
    const std::lock_guard lock(mutex);
    compute_streams.insert(joined.device->compute_stream());
    return joined;
  };
  options.before_step = [&](int, std::int64_t step) {
    if (step == 1) all_joined.arrive_and_wait();
  };
  return small_run(config, kSteps, options);
}

TEST_CASE("without an edge between streams results are wrong") {
  using Missing = LooseDevice::Missing;
  for (const ParallelSpec& spec :
       {mesh(Engine::kDdp, 2), mesh(Engine::kZero1, 2), mesh(Engine::kZero3, 2),
        mesh(Engine::kDdp, 1, 2), mesh(Engine::kDdp, 1, 1, 2)}) {
    const Config config = fast_on_mesh(small_gpt(), spec);
    INFO(planner::name(spec.engine), ", dp ", spec.dp, ", tp ", spec.tp, ", pp ", spec.pp);
    const SmallRun expected = small_run(config, kSteps);
    CHECK(loose_run(config, Missing::kNone).has_same_bits(expected));
    CHECK_FALSE(loose_run(config, Missing::kComputeBehindCall).has_same_bits(expected));
    CHECK_FALSE(loose_run(config, Missing::kCallBehindCompute).has_same_bits(expected));
  }
}

#endif

}  // namespace
}  // namespace nqd::tests
