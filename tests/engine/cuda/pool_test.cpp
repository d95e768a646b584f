// The pool of device memory over a source on the host, and what errors say.
#include <doctest/doctest.h>

#include <map>
#include <memory>

#include "base/error.h"
#include "engine/cuda/error.h"
#include "engine/cuda/lent_memory.h"
#include "engine/cuda/pool.h"
#include "engine/cuda/wait_looking.h"

namespace nqd::engine::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class HostSource : public MemorySource {
 public:
  explicit HostSource(std::size_t total) : total_(total) {}
  std::byte* allocate(std::size_t bytes) override {
    if (used_ + bytes > total_) return nullptr;
    auto block = std::make_unique<std::byte[]>(1);
    std::byte* const data = block.get();
    used_ += bytes;
    blocks_[data] = {std::move(block), bytes};
    ++allocations;
    return data;
  }
  void release(std::byte* block) override {
    used_ -= blocks_.at(block).second;
    blocks_.erase(block);
  }
  std::size_t free_bytes() override { return total_ - used_; }
  std::size_t total_bytes() override { return total_; }

  int allocations = 0;

 private:
  std::size_t total_;
  std::size_t used_ = 0;
  std::map<std::byte*, std::pair<std::unique_ptr<std::byte[]>, std::size_t>> blocks_;
};

TEST_CASE("the ledger counts bytes asked for, the pool bytes taken") {
  HostSource source(64 * kMiB);
  MemoryLedger ledger;
  {
    DevicePool pool(source, &ledger);
    DeviceBuffer weights = pool.allocate(MemoryTag::kWeights, 1000);
    {
      const DeviceBuffer work = pool.allocate(MemoryTag::kWorkspace, 3 * kMiB);
      CHECK(ledger.current_bytes(MemoryTag::kWorkspace) == 3 * kMiB);
      CHECK(pool.reserved_bytes() == 1024 + 4 * kMiB);
    }
    CHECK(ledger.current_total_bytes() == 1000);
    CHECK(ledger.peak_total_bytes() == 1000 + 3 * kMiB);
    CHECK(pool.reserved_bytes() == 1024 + 4 * kMiB);  // kept
    pool.trim();
    CHECK(pool.reserved_bytes() == 1024);
    CHECK(pool.peak_reserved_bytes() == 1024 + 4 * kMiB);
    DeviceBuffer moved = std::move(weights);
    CHECK(moved.size() == 1000);
    moved = DeviceBuffer();
    CHECK(ledger.current_total_bytes() == 0);
    CHECK(pool.allocate(MemoryTag::kData, 0).data() == nullptr);
  }
  CHECK(source.free_bytes() == 64 * kMiB);
}

TEST_CASE("a block that came back serves its size and a little less, and nothing much smaller") {
  HostSource source(64 * kMiB);
  DevicePool pool(source, nullptr);
  std::byte* first = pool.allocate(MemoryTag::kWorkspace, 20 * kMiB).data();
  CHECK(pool.allocate(MemoryTag::kLogits, 19 * kMiB).data() == first);
  CHECK(pool.allocate(MemoryTag::kLogits, 18 * kMiB).data() == first);
  CHECK(source.allocations == 1);
  CHECK(pool.allocate(MemoryTag::kLogits, 10 * kMiB).data() != first);
  CHECK(source.allocations == 2);
  CHECK(pool.reserved_bytes() == 30 * kMiB);
}

TEST_CASE("before it gives up, the pool gives back what it keeps; then it says what was planned") {
  HostSource source(32 * kMiB);
  MemoryLedger ledger;
  DevicePool pool(source, &ledger, [] { return std::string("planned: 12 MB of logits"); });
  { const DeviceBuffer kept = pool.allocate(MemoryTag::kWorkspace, 20 * kMiB); }
  const DeviceBuffer large = pool.allocate(MemoryTag::kWeights, 30 * kMiB);
  CHECK(source.free_bytes() == 2 * kMiB);
  try {
    pool.allocate(MemoryTag::kLogits, 12 * kMiB);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD4062");
    CHECK(error.exit_code() == ExitCode::kFault);
    const std::string what = error.what();
    CHECK(what.find("logits") != std::string::npos);
    CHECK(what.find("planned: 12 MB of logits") != std::string::npos);
  }
  CHECK(ledger.current_bytes(MemoryTag::kLogits) == 0);
}

TEST_CASE("an error names call, code, rank, device and place; sticky ones are told apart") {
  const FailedCall failed{"cudaMemcpyAsync",          700, "cudaErrorIllegalAddress",
                          "an illegal memory access", 3,   1,
                          "engine/cuda/streams.cpp",  42};
  CHECK_THROWS_WITH_AS(fail(failed),
                       "cudaMemcpyAsync failed with cudaErrorIllegalAddress (700, an illegal "
                       "memory access): rank 3, device 1, engine/cuda/streams.cpp:42",
                       Error);
  const auto code_of = [&](int error) {
    FailedCall other = failed;
    other.error = error;
    try {
      fail(other);
    } catch (const Error& e) {
      return e.code();
    }
  };
  CHECK(code_of(700) == "NQD4061");
  CHECK(code_of(719) == "NQD4061");
  CHECK(code_of(1) == "NQD4060");    // invalid value
  CHECK(code_of(600) == "NQD4060");  // not ready
  CHECK_NOTHROW(require_grid(0x7fffffff));
  CHECK_THROWS_AS(require_grid(0x80000000), Error);
}

TEST_CASE("large blocks are the communicators' as far as they have any") {
  HostSource own(64 * kMiB);
  HostSource lender(4 * kMiB);
  LentMemory source(own);
  int settled = 0;
  {
    DevicePool pool(source, nullptr);
    const DeviceBuffer before = pool.allocate(MemoryTag::kWorkspace, 3 * kMiB);
    CHECK(own.allocations == 1);
    source.lend([&](std::size_t bytes) { return lender.allocate(bytes); },
                [&](std::byte* block) { lender.release(block); }, [&] { ++settled; });
    const DeviceBuffer small = pool.allocate(MemoryTag::kWeights, 1000);
    CHECK(own.allocations == 2);
    const DeviceBuffer large = pool.allocate(MemoryTag::kWeights, 3 * kMiB);
    CHECK(lender.allocations == 1);
    CHECK(lender.free_bytes() == 0);
    const DeviceBuffer more = pool.allocate(MemoryTag::kWeights, 3 * kMiB);
    CHECK(lender.allocations == 1);
    CHECK(own.allocations == 3);
    CHECK(settled == 0);
    { const DeviceBuffer given_back = pool.allocate(MemoryTag::kWeights, 1 * kMiB); }
    CHECK_THROWS_AS(pool.allocate(MemoryTag::kWeights, 100 * kMiB), Error);
    CHECK(settled == 1);  // before what was kept was released
  }
  CHECK(lender.free_bytes() == 4 * kMiB);
  CHECK(own.free_bytes() == 64 * kMiB);
}

TEST_CASE("a wait for a device ends by what whoever looks meanwhile finds") {
  int looks = 0;
  wait_looking([&] { return looks == 2; }, [&] { ++looks; });
  CHECK(looks == 2);
  const auto finds = [] { throw Error(ExitCode::kFault, "NQD4012", "found"); };
  CHECK_THROWS_AS(wait_looking([] { return false; }, finds), Error);
}

}  // namespace
}  // namespace nqd::engine::cuda
