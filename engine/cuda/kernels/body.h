// How kernels are written here: once, for the device and for the host.
//
// A body is a struct whose members are the kernel's arguments, with
//   kThreads  threads of a block,
//   kName     for errors,
//   blocks()  how many blocks cover its work (0: nothing to do),
//   operator()(Block& block) const  what one block does.
// A Block gives
//   index()             of the block in the grid,
//   each(f)             f(thread) for every thread, then a barrier,
//   last(f)             the same without the barrier: nothing after it depends on other threads,
//   Own<T>              a value a thread, own[thread], that lives across phases,
//   reduce(own, merge)  the merge of all threads' values, in one fixed order, known to all,
//   shared<T>()         one object in shared memory,
//   widen, narrow<S>, bits_of  conversions between what is stored and what is computed in.
// Code outside of phases is the same for all threads of a block.
//
// DeviceBlock (device_block.cuh) makes a kernel of it; the tests' HostBlock runs the threads of a
// phase one after the other. An operation that takes several kernels is a function over a launcher
// run(body), so that the order of kernels and what they hand on runs on the host too.
//
// What is computed has the definition of engine/cpu; where sums are taken in another order than
// there, the body says in which. Storage S is float, BFloat16 or Float16; arithmetic is float.
#pragma once

#include <cstdint>

#include "engine/cuda/host_device.h"

namespace nqd::engine::cuda {

// Threads of a block where nothing asks for another number.
inline constexpr int kBlockThreads = 256;

// Elements that one 16-byte access moves.
template <typename S>
inline constexpr int kPackWidth = 16 / static_cast<int>(sizeof(S));

// kWidth elements that are read and written together: accesses of 16 bytes where kWidth is that of
// a pack or a multiple, of one element where it is 1.
template <typename S, int kWidth>
struct alignas(kWidth == 1 ? alignof(S) : 16) Pack {
  S values[kWidth];
};

template <int kWidth, typename S>
NQD_DEVICE inline Pack<S, kWidth> load(const S* from) {
  return *reinterpret_cast<const Pack<S, kWidth>*>(from);
}
template <typename S, int kWidth>
NQD_DEVICE inline void store(S* to, const Pack<S, kWidth>& pack) {
  *reinterpret_cast<Pack<S, kWidth>*>(to) = pack;
}

// Whether all of them may be accessed by 16 bytes; a null pointer may.
template <typename... T>
bool are_aligned(const T*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t divisor) {
  return (n + divisor - 1) / divisor;
}

// i = row · width + column. Divisions of 32 bits where they suffice: those of 64 bits are several
// times as long on the device.
struct Place {
  std::int64_t row;
  std::int64_t column;
};
NQD_HOST_DEVICE inline Place place_of(std::int64_t i, std::int64_t width) {
  if (((i | width) >> 32) == 0) {
    const auto at = static_cast<std::uint32_t>(i);
    const auto by = static_cast<std::uint32_t>(width);
    return {at / by, at % by};
  }
  return {i / width, i % width};
}

struct Add {
  template <typename T>
  NQD_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
// A NaN may be dropped, as by the CPU's lane_max: what follows meets it again.
struct Larger {
  template <typename T>
  NQD_DEVICE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Smaller {
  template <typename T>
  NQD_DEVICE T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

// Sums in the tree of collectives/canonical/tree.h, of fewer than 2^kLevels contributions that come
// in ascending order: those of the binary digits of their number wait for their siblings. Every
// loop has constant bounds, so that what waits stays in registers.
template <typename T, int kLevels = 16>
class TreeSum {
 public:
  NQD_DEVICE void add(T value) {
    bool carried = true;
    NQD_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      const bool waits = (count_ >> level & 1U) != 0;
      if (carried && waits) value = waiting_[level] + value;
      if (carried && !waits) waiting_[level] = value;
      carried = carried && waits;
    }
    ++count_;
  }
  // The sum of what was added; 0 of nothing.
  NQD_DEVICE T total() const {
    T sum{};
    bool any = false;
    NQD_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      if ((count_ >> level & 1U) == 0) continue;
      sum = any ? waiting_[level] + sum : waiting_[level];
      any = true;
    }
    return sum;
  }

 private:
  T waiting_[kLevels] = {};
  std::uint32_t count_ = 0;
};

}  // namespace nqd::engine::cuda
