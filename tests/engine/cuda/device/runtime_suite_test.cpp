// Streams, events, graphs and errors on a device.
#include <doctest/doctest.h>

#include <stdexcept>

#include "base/error.h"
#include "engine/cuda/error.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/kernels/convert.h"
#include "tests/engine/cuda/close.h"
#include "tests/engine/cuda/device/gpu_array.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

TEST_CASE("a stream waits for an event of another, and events measure time") {
  RankStreams streams;
  const std::int64_t n = 1 << 22;
  GpuArray<float> x(std::vector<float>(index(n), 1.0F));
  Event start(Event::Kind::kTiming), end(Event::Kind::kTiming), order;
  start.record(streams.compute.handle());
  for (int i = 0; i < 10; ++i) scale_all(streams.compute.handle(), x, 2.0F, n);
  order.record(streams.compute.handle());
  end.record(streams.compute.handle());
  streams.copy.wait(order);
  PinnedBuffer host(nullptr, MemoryTag::kData, index(n) * sizeof(float));
  copy_async(streams.copy.handle(), host.data(), x.data(), host.size());
  streams.copy.synchronize();
  CHECK(order.done());
  CHECK(end.milliseconds_since(start) > 0);
  const auto* values = reinterpret_cast<const float*>(host.data());
  CHECK(values[0] == 1024.0F);
  CHECK(values[n - 1] == 1024.0F);
}

TEST_CASE("a graph does what was recorded, each time it is launched; nothing before") {
  GpuArray<float> x(std::vector<float>(1000, 1.0F));
  const Graph graph(test_stream(), [&] {
    scale_all(test_stream(), x, 3.0F, 1000);
    scale_all(test_stream(), x, 2.0F, 1000);
  });
  CHECK(x.values()[999] == 1.0F);
  graph.launch(test_stream());
  graph.launch(test_stream());
  CHECK(x.values()[999] == 36.0F);
  CHECK_THROWS_AS(Graph(test_stream(), [] { throw std::runtime_error("in the recording"); }),
                  std::runtime_error);
  scale_all(test_stream(), x, 0.5F, 1000);
  CHECK(x.values()[0] == 18.0F);
}

TEST_CASE("an error says what failed; more memory than there is names the plan") {
  set_thread_rank(2);
  try {
    copy_async(test_stream(), nullptr, nullptr, std::size_t{1} << 20);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(error.code() == "NQD4060");
    CHECK(what.find("cudaMemcpyAsync") != std::string::npos);
    CHECK(what.find("rank 2, device 0, engine/cuda/streams.cpp:") != std::string::npos);
  }
  set_thread_rank(-1);
  CHECK_THROWS_AS(use_device(4096), Error);
  DeviceMemory memory;
  MemoryLedger ledger;
  DevicePool pool(memory, &ledger, [] { return std::string("planned: all of it"); });
  CHECK_THROWS_WITH_AS(pool.allocate(MemoryTag::kLogits, std::size_t{1} << 50),
                       doctest::Contains("planned: all of it"), Error);
  CHECK(pool.allocate(MemoryTag::kLogits, 1 << 20).data() != nullptr);
  synchronize_device();
}

}  // namespace
}  // namespace nqd::engine::cuda
