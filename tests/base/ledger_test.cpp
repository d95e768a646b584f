#include "base/ledger.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace nqd {
namespace {

TEST_CASE("current and peak by tag; the total peak is of the sum") {
  MemoryLedger ledger;
  ledger.add(MemoryTag::kWeights, 100);
  ledger.add(MemoryTag::kLogits, 50);
  ledger.remove(MemoryTag::kLogits, 50);
  ledger.add(MemoryTag::kActivations, 30);
  CHECK(ledger.current_bytes(MemoryTag::kWeights) == 100);
  CHECK(ledger.current_bytes(MemoryTag::kLogits) == 0);
  CHECK(ledger.peak_bytes(MemoryTag::kLogits) == 50);
  CHECK(ledger.peak_bytes(MemoryTag::kActivations) == 30);
  CHECK(ledger.peak_bytes(MemoryTag::kGradients) == 0);
  CHECK(ledger.current_total_bytes() == 130);
  CHECK(ledger.peak_total_bytes() == 150);  // the peaks sum to 180
}

TEST_CASE("a buffer is counted by the bytes asked for, from construction to destruction") {
  MemoryLedger ledger;
  {
    Buffer buffer(&ledger, MemoryTag::kGradients, 1000);
    CHECK(buffer.size() == 1000);
    CHECK(ledger.current_bytes(MemoryTag::kGradients) == 1000);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    for (std::size_t i = 0; i < 1000; ++i) REQUIRE(buffer.as<unsigned char>()[i] == 0);
  }
  CHECK(ledger.current_total_bytes() == 0);
  CHECK(ledger.peak_bytes(MemoryTag::kGradients) == 1000);
}

TEST_CASE("moving a buffer moves its count") {
  MemoryLedger ledger;
  Buffer a(&ledger, MemoryTag::kWeights, 64);
  a.as<int>()[0] = 7;
  Buffer b(std::move(a));
  CHECK(b.as<int>()[0] == 7);
  CHECK(ledger.current_total_bytes() == 64);
  Buffer c(&ledger, MemoryTag::kLogits, 32);
  c = std::move(b);
  CHECK(c.as<int>()[0] == 7);
  CHECK(ledger.current_bytes(MemoryTag::kLogits) == 0);
  CHECK(ledger.current_bytes(MemoryTag::kWeights) == 64);
  c = Buffer();
  CHECK(ledger.current_total_bytes() == 0);
  CHECK(c.data() == nullptr);
  CHECK(c.size() == 0);
}

TEST_CASE("a buffer without a ledger, and one of no bytes, still have an address") {
  const Buffer uncounted(nullptr, MemoryTag::kWeights, 10);
  CHECK(uncounted.data() != nullptr);
  MemoryLedger ledger;
  const Buffer empty(&ledger, MemoryTag::kWeights, 0);
  CHECK(empty.data() != nullptr);
  CHECK(ledger.peak_total_bytes() == 0);
}

TEST_CASE("a size near the end of the address space is refused, not wrapped, and not counted") {
  MemoryLedger ledger;
  constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {kMax, kMax - 1, kMax - 62, kMax - 63, kMax - 64, kMax / 2}) {
    INFO("bytes = ", bytes);
    CHECK_THROWS_AS(Buffer(&ledger, MemoryTag::kWeights, bytes), std::bad_alloc);
  }
  CHECK(ledger.peak_total_bytes() == 0);
}

TEST_CASE("threads may allocate at once") {
  MemoryLedger ledger;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        const Buffer buffer(&ledger, MemoryTag::kWorkspace, 8);
        ledger.add(MemoryTag::kData, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ledger.current_bytes(MemoryTag::kWorkspace) == 0);
  CHECK(ledger.current_bytes(MemoryTag::kData) == 4000);
  CHECK(ledger.peak_bytes(MemoryTag::kWorkspace) >= 8);
  CHECK(ledger.peak_bytes(MemoryTag::kWorkspace) <= 32);
}

TEST_CASE("weights, gradients, master, moments and EMA are persistent, nothing else") {
  std::vector<std::string_view> persistent;
  for (int i = 0; i < static_cast<int>(MemoryTag::kCount); ++i) {
    const auto tag = static_cast<MemoryTag>(i);
    CHECK(name(tag) != "?");
    if (is_persistent(tag)) persistent.push_back(name(tag));
  }
  CHECK(persistent ==
        std::vector<std::string_view>{"weights", "gradients", "master", "moments", "ema"});
}

}  // namespace
}  // namespace nqd
