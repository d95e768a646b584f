// A step on a device: uploads and sums beside it, and passes repeated from graphs.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/cuda/gpu_device.h"
#include "engine/cuda/make_cuda_device.h"
#include "tests/engine/device/small_run.h"

namespace nqd::tests {
namespace {

using engine::cuda::GpuDevice;

class Floats {
 public:
  Floats(GpuDevice& device, std::size_t count)
      : device_(device),
        count_(count),
        memory_(device.allocate(nullptr, MemoryTag::kWorkspace, count * sizeof(float),
                                engine::Reach::kOwn)) {}

  float* data() const { return reinterpret_cast<float*>(memory_->data()); }
  void set(std::size_t at, const std::vector<float>& values) const {
    device_.upload(data() + at, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> values() const {
    std::vector<float> all(count_);
    device_.download(all.data(), data(), count_ * sizeof(float));
    return all;
  }

 private:
  GpuDevice& device_;
  std::size_t count_;
  std::unique_ptr<engine::DeviceMemory> memory_;
};

TEST_CASE("what is uploaded is what was there when the call was made") {
  GpuDevice device(0, {});
  constexpr std::size_t kEach = 1000, kTimes = 40;
  const Floats floats(device, kEach * kTimes);
  std::vector<float> host(kEach);
  for (std::size_t i = 0; i < kTimes; ++i) {
    std::fill(host.begin(), host.end(), static_cast<float>(i));
    floats.set(i * kEach, host);
  }
  const std::vector<float> found = floats.values();
  for (std::size_t i = 0; i < kTimes; ++i) {
    CHECK(found[i * kEach] == static_cast<float>(i));
    CHECK(found[(i + 1) * kEach - 1] == static_cast<float>(i));
  }
  // In several pieces.
  std::vector<float> large(3 << 20);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i);
  const Floats place(device, large.size());
  place.set(0, large);
  CHECK(place.values() == large);
}

TEST_CASE("sums of the host are whole after one wait") {
  GpuDevice device(0, {});
  const Floats floats(device, 300'000);
  floats.set(0, std::vector<float>(300'000, 2.0F));
  const std::vector<double> losses(5000, 0.25);
  const auto on_device = device.allocate(nullptr, MemoryTag::kWorkspace,
                                         losses.size() * sizeof(double), engine::Reach::kOwn);
  device.upload(on_device->data(), losses.data(), losses.size() * sizeof(double));
  for (int round = 0; round < 2; ++round) {
    engine::ExactSum squares, values;
    for (int i = 0; i < 30; ++i) {
      device.add_values(values, reinterpret_cast<const double*>(on_device->data()), 5000);
      device.add_squares(squares, floats.data() + i, 100'000 + i);
    }
    device.collect();
    CHECK(values.value() == 30 * 5000 * 0.25);
    CHECK(squares.value() == 4.0 * (30 * 100'000 + 29 * 30 / 2));
  }
}

TEST_CASE("a graph repeats a part until what varies, or the scratch, is another") {
  GpuDevice device(0, {});
  const Floats floats(device, 2);
  floats.set(0, {1, 1});
  int bodies = 0;
  const auto again = [&](std::int64_t varying) {
    return device.repeat({.part = 3, .varying = {varying}}, [&] {
      ++bodies;
      device.add(floats.data(), floats.data() + 1, 1);
    });
  };
  CHECK(again(0));
  CHECK(again(0));
  CHECK_FALSE(again(0));
  CHECK_FALSE(again(0));
  CHECK(bodies == 2);
  CHECK(floats.values()[0] == 5);
  CHECK(again(1));
  CHECK(again(1));
  CHECK_FALSE(again(1));
  engine::ExactSum sum;
  device.add_squares(sum, floats.data(), 1);  // the first scratch
  device.collect();
  CHECK(again(1));
  CHECK(again(1));
  CHECK_FALSE(again(1));
  CHECK(floats.values()[0] == 11);
}

TEST_CASE("what waits for the host cannot be recorded, and the device goes on") {
  GpuDevice device(0, {});
  const Floats floats(device, 4);
  float value = 7;
  const std::vector<std::function<void()>> refused = {
      [&] { device.synchronize(); }, [&] { floats.set(0, {1}); },
      [&] { device.download(&value, floats.data(), sizeof value); }};
  std::int64_t part = 0;
  for (const auto& body : refused) {
    ++part;
    CHECK(device.repeat({.part = part}, body));
    CHECK_THROWS_AS(device.repeat({.part = part}, body), std::logic_error);
  }
  floats.set(0, {1, 2, 3, 4});
  CHECK(floats.values() == std::vector<float>{1, 2, 3, 4});
}

void check_graphs(const planner::Config& model) {
  const planner::Config config = on_mesh(model, {});
  const auto device = [] { return engine::make_cuda_device(0, {}); };
  const SmallRun plain = small_run(config, kManySteps, device, false);
  const SmallRun repeated = small_run(config, kManySteps, device);
  CHECK(plain.losses[0] > 0);
  CHECK(plain.repeated == 0);
  CHECK(repeated.repeated == kRepeatedSteps);
  CHECK(repeated.has_same_bits(plain));
}

TEST_CASE("steps repeated from graphs have the bits of those asked for operation by operation") {
  planner::Config config = small_gpt();
  config.train.dropout = true;
  check_graphs(config);
  config = small_llama();
  config.train.precision = planner::Precision::kBFloat16;
  config.numerics.mode = collectives::Numerics::kFast;
  check_graphs(config);
  config = small_encoder();
  config.train.precision = planner::Precision::kFloat16;
  config.train.recompute = planner::Recompute::kSelective;
  check_graphs(config);
}

}  // namespace
}  // namespace nqd::tests
