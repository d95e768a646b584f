// engine/cpu/convert.h on the device: the same bits.
#pragma once

#include "engine/cuda/kernels/bodies/elements.h"
#include "engine/cuda/kernels/convert.h"

namespace nqd::engine::cuda::bodies {

// to = from, whose types differ.
template <typename To, typename From>
struct Convert {
  static constexpr const char* kName = "convert";
  static constexpr int kWidth = sizeof(To) < sizeof(From) ? kPackWidth<To> : kPackWidth<From>;
  To* to;
  const From* from;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Pack<From, kCount> in = load<kCount>(from + i);
    Pack<To, kCount> out;
    for (int k = 0; k < kCount; ++k) {
      out.values[k] = Block::template narrow<To>(Block::widen(in.values[k]));
    }
    store(to + i, out);
  }
};

template <typename S>
struct AddTo {
  static constexpr const char* kName = "add_all";
  static constexpr int kWidth = kPackWidth<S>;
  float* to;
  const S* from;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Pack<S, kCount> in = load<kCount>(from + i);
    Pack<float, kCount> sum = load<kCount>(to + i);
    for (int k = 0; k < kCount; ++k) sum.values[k] += Block::widen(in.values[k]);
    store(to + i, sum);
  }
};

struct Scale {
  static constexpr const char* kName = "scale_all";
  static constexpr int kWidth = kPackWidth<float>;
  float* x;
  float factor;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    Pack<float, kCount> pack = load<kCount>(x + i);
    for (float& value : pack.values) value *= factor;
    store(x + i, pack);
  }
};

struct AddThrough {
  static constexpr const char* kName = "add_through";
  static constexpr int kWidth = kPackWidth<float>;
  float* sums[kMostSums];
  int count;
  const float* leaf;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    Pack<float, kCount> value = load<kCount>(leaf + i);
    for (int s = 0; s < count; ++s) {
      const Pack<float, kCount> sum = load<kCount>(sums[s] + i);
      for (int k = 0; k < kCount; ++k) value.values[k] = sum.values[k] + value.values[k];
    }
    store(sums[count - 1] + i, value);
  }
};

// Block b takes the elements b · kThreads + thread, and on in steps of all threads of the grid:
// smallest[b] is the index of its first infinity or NaN, else n.
template <typename S>
struct NonFiniteOfBlocks {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "first_non_finite";
  std::int64_t* smallest;
  const S* x;
  std::int64_t n;

  NQD_HOST_DEVICE std::int64_t blocks() const {
    const std::int64_t needed = divide_up(n, kThreads);
    return needed < kNonFiniteScratch ? needed : kNonFiniteScratch;
  }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    typename Block::template Own<std::int64_t> found;
    block.each([&](int thread) {
      found[thread] = n;
      const std::int64_t step = blocks() * kThreads;
      for (std::int64_t i = block.index() * kThreads + thread; i < n; i += step) {
        const float value = Block::widen(x[i]);
        // Infinities and NaN alone are not 0 times themselves.
        if (value * 0.0F == 0.0F) continue;
        found[thread] = i;
        break;
      }
    });
    const std::int64_t first = block.reduce(found, Smaller{});
    block.last([&](int thread) {
      if (thread == 0) smallest[block.index()] = first;
    });
  }
};

// index = the smallest of `count` numbers, −1 if that is n.
struct NonFiniteOfAll {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "first_non_finite";
  std::int64_t* index;
  const std::int64_t* smallest;
  std::int64_t count;
  std::int64_t n;

  std::int64_t blocks() const { return 1; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    typename Block::template Own<std::int64_t> found;
    block.each([&](int thread) {
      found[thread] = n;
      for (std::int64_t i = thread; i < count; i += kThreads) {
        found[thread] = smallest[i] < found[thread] ? smallest[i] : found[thread];
      }
    });
    const std::int64_t first = block.reduce(found, Smaller{});
    block.last([&](int thread) {
      if (thread == 0) *index = first == n ? -1 : first;
    });
  }
};

template <typename S, typename Run>
void narrow_all(const Run& run, S* to, const float* from, std::int64_t n) {
  run_elements(run, Convert<S, float>{to, from}, n, are_aligned(to, from));
}
template <typename S, typename Run>
void widen_all(const Run& run, float* to, const S* from, std::int64_t n) {
  run_elements(run, Convert<float, S>{to, from}, n, are_aligned(to, from));
}
template <typename S, typename Run>
void add_all(const Run& run, float* to, const S* from, std::int64_t n) {
  run_elements(run, AddTo<S>{to, from}, n, are_aligned(to, from));
}
template <typename Run>
void scale_all(const Run& run, float* x, float factor, std::int64_t n) {
  run_elements(run, Scale{x, factor}, n, are_aligned(x));
}
template <typename Run>
void add_through(const Run& run, std::span<float* const> sums, const float* leaf, std::int64_t n) {
  AddThrough op{{}, static_cast<int>(sums.size()), leaf};
  bool packed = are_aligned(leaf);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    op.sums[i] = sums[i];
    packed = packed && are_aligned(sums[i]);
  }
  run_elements(run, op, n, packed);
}
template <typename S, typename Run>
void first_non_finite(const Run& run, std::int64_t* index, const S* x, std::int64_t n,
                      std::int64_t* scratch) {
  const NonFiniteOfBlocks<S> blocks{scratch, x, n};
  run(blocks);
  run(NonFiniteOfAll{index, scratch, blocks.blocks(), n});
}

}  // namespace nqd::engine::cuda::bodies
