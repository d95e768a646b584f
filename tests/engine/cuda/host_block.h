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
#include "engine/cuda/kernels/mma.h"
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

  void barrier() {}

  // Late, and nothing that could be read meanwhile.
  void copy_async(void* to, const void* from, int count) {
    std::memset(to, 0xff, 16);
    copies_.push_back({to, from, count});
  }
  void copied() {
    for (const Copy& copy : copies_) {
      std::memset(copy.to, 0, 16);
      std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.count));
    }
    copies_.clear();
  }

  // The lanes' parts put together, multiplied, and given back to them.
  template <typename S, typename F>
  void mma(const F& operands) {
    using engine::cuda::Lane;
    const auto half = [](std::uint32_t word, int upper) {
      return engine::cpu::widen(S{static_cast<std::uint16_t>(word >> (16 * upper))});
    };
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      float a[16][16], b[16][8];
      float* c[kWarp];
      for (int i = 0; i < kWarp; ++i) {
        const engine::cuda::Mma<S> m = operands(warp * kWarp + i);
        const Lane lane(i);
        for (int r = 0; r < 4; ++r) {
          for (int upper = 0; upper < 2; ++upper) {
            a[lane.g + r % 2 * 8][lane.t * 2 + r / 2 * 8 + upper] = half(m.a[r], upper);
            if (r < 2) b[lane.t * 2 + r * 8 + upper][lane.g] = half(m.b[r], upper);
          }
        }
        c[i] = m.c;
      }
      for (int i = 0; i < kWarp; ++i) {
        const Lane lane(i);
        for (int e = 0; e < 4; ++e) {
          float sum = 0;
          for (int k = 0; k < 16; ++k) sum += a[lane.row(e)][k] * b[k][lane.column(0, e)];
          c[i][e] += sum;
        }
      }
    }
  }

  template <bool kTransposed, typename F>
  void matrices(Own<engine::cuda::Words>& words, const F& row_of) {
    using engine::cuda::Lane;
    for (int first = 0; first < kThreads; first += kWarp) {
      std::uint16_t rows[kWarp][8];
      std::uintptr_t misplaced = 0;
      for (int i = 0; i < kWarp; ++i) {
        const auto* const row = row_of(first + i);
        misplaced |= reinterpret_cast<std::uintptr_t>(row) % 16;
        for (int column = 0; column < 8; ++column) rows[i][column] = row[column].bits;
      }
      REQUIRE(misplaced == 0);
      for (int i = 0; i < kWarp; ++i) {
        const Lane lane(i);
        for (int m = 0; m < 4; ++m) {
          const auto* const of = rows + m * 8;
          const std::uint32_t low = kTransposed ? of[lane.t * 2][lane.g] : of[lane.g][lane.t * 2];
          const std::uint32_t high =
              kTransposed ? of[lane.t * 2 + 1][lane.g] : of[lane.g][lane.t * 2 + 1];
          words[first + i].of[m] = low | high << 16;
        }
      }
    }
  }

  template <typename F, typename Merge>
  void quads(const F& value_of, const Merge& merge) {
    for (int first = 0; first < kThreads; first += 4) {
      const float low = merge(value_of(first), value_of(first + 1));
      const float all = merge(low, merge(value_of(first + 2), value_of(first + 3)));
      for (int i = 0; i < 4; ++i) value_of(first + i) = all;
    }
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
  struct Copy {
    void* to;
    const void* from;
    int count;
  };

  std::int64_t index_;
  ThreadOrder order_;
  std::unique_ptr<unsigned char[]> shared_;
  std::vector<Copy> copies_;
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
