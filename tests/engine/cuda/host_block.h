// Runs kernel bodies (engine/cuda/kernels/body.h) on the host, the threads of a phase one after the
// other. Shared memory and what threads own begin as NaN. Blocks and threads run in ascending or in
// descending order: a body whose threads depend on each other within a phase gives two results.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/cpu/storage.h"
#include "tests/engine/cuda/close.h"

namespace nqd::tests {

enum class ThreadOrder : bool { kAscending, kDescending };

template <int kThreadCount>
class HostBlock {
 public:
  static constexpr int kThreads = kThreadCount;
  static constexpr int kWarp = 32;

  HostBlock(std::int64_t index, ThreadOrder order) : index_(index), order_(order) {}

  template <typename T>
  class Own {
   public:
    Own() : values_(static_cast<T*>(::operator new(kThreads * sizeof(T)))) {
      std::memset(static_cast<void*>(values_), 0xff, kThreads * sizeof(T));
    }
    ~Own() { ::operator delete(values_); }
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
    T& operator[](int thread) { return values_[thread]; }

   private:
    T* values_;
  };

  std::int64_t index() const { return index_; }

  template <typename F>
  void each(const F& phase) {
    for (int i = 0; i < kThreads; ++i) {
      phase(order_ == ThreadOrder::kAscending ? i : kThreads - 1 - i);
    }
  }
  template <typename F>
  void last(const F& phase) {
    each(phase);
  }

  // The order of DeviceBlock: halves of a warp, then the warps in ascending order.
  template <typename T, typename Merge>
  T reduce(Own<T>& own, const Merge& merge) {
    T total{};
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      T lanes[kWarp];
      for (int lane = 0; lane < kWarp; ++lane) lanes[lane] = own[warp * kWarp + lane];
      for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        for (int lane = 0; lane < distance; ++lane) {
          lanes[lane] = merge(lanes[lane], lanes[lane + distance]);
        }
      }
      total = warp == 0 ? lanes[0] : merge(total, lanes[0]);
    }
    return total;
  }

  template <typename T>
  T& shared() {
    REQUIRE(shared_ == nullptr);  // a body asks for one object only
    static_assert(sizeof(T) <= 48 * 1024, "static shared memory of a block");
    shared_ = std::make_unique<unsigned char[]>(sizeof(T));
    std::memset(shared_.get(), 0xff, sizeof(T));
    return reinterpret_cast<T&>(*shared_.get());
  }

  template <typename S>
  static float widen(S value) {
    return engine::cpu::widen(value);
  }
  template <typename S>
  static S narrow(float value) {
    return engine::cpu::narrow<S>(value);
  }
  static std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

 private:
  std::int64_t index_;
  ThreadOrder order_;
  std::unique_ptr<unsigned char[]> shared_;
};

// A launcher.
class Emulation {
 public:
  explicit Emulation(ThreadOrder order) : order_(order) {}

  template <typename Body>
  void operator()(const Body& body) const {
    const std::int64_t blocks = body.blocks();
    for (std::int64_t i = 0; i < blocks; ++i) {
      const bool ascending = order_ == ThreadOrder::kAscending;
      HostBlock<Body::kThreads> block(ascending ? i : blocks - 1 - i, order_);
      body(block);
    }
  }

 private:
  ThreadOrder order_;
};

// compute(run) returns a vector; what it returns in both orders of threads.
template <typename Compute>
auto emulate(const Compute& compute) {
  const auto ascending = compute(Emulation(ThreadOrder::kAscending));
  const auto descending = compute(Emulation(ThreadOrder::kDescending));
  CHECK(same_bits(ascending, descending));
  return ascending;
}

}  // namespace nqd::tests
