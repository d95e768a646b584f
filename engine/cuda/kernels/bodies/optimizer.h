// engine/optimizer/{adamw,sgd}.h on the device: the same bits. Beside them AdamW on bfloat16
// weights without a master copy, rounded at random, and the sum of squares of the global norm.
#pragma once

#include <cmath>

#include "engine/cuda/kernels/bodies/elements.h"
#include "engine/cuda/kernels/optimizer.h"
#include "engine/optimizer/update_factors.h"
#include "engine/philox.h"

namespace nqd::engine::cuda::bodies {

// The new weight; moments in place.
NQD_DEVICE inline float adamw_element(const AdamwFactors& f, float weight, float gradient_in,
                                      float& m, float& v) {
  const float gradient = gradient_in * f.scale;
  m = f.beta1 * m + f.rest1 * gradient;
  v = f.beta2 * v + f.rest2 * gradient * gradient;
  return weight * f.keep - f.step_size * (m / (std::sqrt(v) * f.inverse_root2 + f.epsilon));
}

// S is float where no copy is stored; then `stored` is not used.
template <typename S, bool kStores>
struct Adamw {
  static constexpr const char* kName = "adamw_step";
  static constexpr int kWidth = kPackWidth<S>;
  float* weights;
  S* stored;
  const float* gradients;
  float* m;
  float* v;
  AdamwFactors factors;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    Pack<float, kCount> w = load<kCount>(weights + i);
    const Pack<float, kCount> g = load<kCount>(gradients + i);
    Pack<float, kCount> m_new = load<kCount>(m + i);
    Pack<float, kCount> v_new = load<kCount>(v + i);
    Pack<S, kCount> low;
    for (int k = 0; k < kCount; ++k) {
      w.values[k] =
          adamw_element(factors, w.values[k], g.values[k], m_new.values[k], v_new.values[k]);
      if constexpr (kStores) low.values[k] = Block::template narrow<S>(w.values[k]);
    }
    store(weights + i, w);
    store(m + i, m_new);
    store(v + i, v_new);
    if constexpr (kStores) store(stored + i, low);
  }
};

// One of the two bfloat16 neighbours of `value`, the upper one with the probability of its share:
// random bits are added below the last kept bit. Infinities and NaN stay what they are.
NQD_HOST_DEVICE inline std::uint16_t round_at_random(std::uint32_t bits, std::uint32_t random) {
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  // The payload of a NaN may lie in the lower half alone.
  const std::uint32_t quiet = (bits & 0x7fffffffU) > 0x7f800000U ? 0x400000U : 0U;
  return static_cast<std::uint16_t>((finite ? bits + (random & 0xffffU) : bits | quiet) >> 16);
}

struct StochasticAdamw {
  static constexpr const char* kName = "adamw_step_stochastic";
  static constexpr int kWidth = kPackWidth<BFloat16>;
  BFloat16* weights;
  const float* gradients;
  float* m;
  float* v;
  AdamwFactors factors;
  PhiloxKey key;
  std::uint32_t step;
  std::int64_t first;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    Pack<BFloat16, kCount> w = load<kCount>(weights + i);
    const Pack<float, kCount> g = load<kCount>(gradients + i);
    Pack<float, kCount> m_new = load<kCount>(m + i);
    Pack<float, kCount> v_new = load<kCount>(v + i);
    PhiloxCounter words{};
    for (int k = 0; k < kCount; ++k) {
      const auto element = static_cast<std::uint64_t>(first + i + k);
      if (k == 0 || element % 8 == 0) words = block_words(element / 8);
      const float value = adamw_element(factors, Block::widen(w.values[k]), g.values[k],
                                        m_new.values[k], v_new.values[k]);
      const std::uint32_t random = half_word(words, static_cast<int>(element % 8));
      w.values[k].bits = round_at_random(Block::bits_of(value), random);
    }
    store(weights + i, w);
    store(m + i, m_new);
    store(v + i, v_new);
  }

  NQD_DEVICE PhiloxCounter block_words(std::uint64_t block) const {
    return philox4x32_10({static_cast<std::uint32_t>(block),
                          static_cast<std::uint32_t>(block >> 32), step, kRoundingPlace},
                         key);
  }
  // Half h of a block's eight; chosen without an array, which would be in memory.
  static NQD_DEVICE std::uint32_t half_word(const PhiloxCounter& words, int h) {
    const std::uint32_t low = h < 2 ? words[0] : words[1];
    const std::uint32_t high = h < 6 ? words[2] : words[3];
    return (h < 4 ? low : high) >> (h % 2 * 16) & 0xffffU;
  }
};

template <typename S, bool kStores, bool kVelocity>
struct Sgd {
  static constexpr const char* kName = "sgd_step";
  static constexpr int kWidth = kPackWidth<S>;
  float* weights;
  S* stored;
  const float* gradients;
  float* velocity;
  float keep;
  SgdOptions options;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    Pack<float, kCount> w = load<kCount>(weights + i);
    const Pack<float, kCount> g = load<kCount>(gradients + i);
    Pack<float, kCount> u = {};
    if constexpr (kVelocity) u = load<kCount>(velocity + i);
    Pack<S, kCount> low;
    for (int k = 0; k < kCount; ++k) {
      float move = g.values[k] * options.gradient_scale;
      if constexpr (kVelocity) {
        move = options.momentum * u.values[k] + move;
        u.values[k] = move;
      }
      w.values[k] = w.values[k] * keep - options.lr * move;
      if constexpr (kStores) low.values[k] = Block::template narrow<S>(w.values[k]);
    }
    store(weights + i, w);
    if constexpr (kVelocity) store(velocity + i, u);
    if constexpr (kStores) store(stored + i, low);
  }
};

struct Ema {
  static constexpr const char* kName = "ema_step";
  static constexpr int kWidth = kPackWidth<float>;
  float* average;
  const float* weights;
  float rest;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    Pack<float, kCount> e = load<kCount>(average + i);
    const Pack<float, kCount> w = load<kCount>(weights + i);
    for (int k = 0; k < kCount; ++k) e.values[k] += rest * (w.values[k] - e.values[k]);
    store(average + i, e);
  }
};

// Elements of one partial sum of squares.
inline constexpr std::int64_t kNormChunk = 16384;

// partial[chunk] = Σ x² of a chunk in double, every square exact: thread t adds packs t, t + 256,
// …, then the threads are merged.
template <int kWidth>
struct SquaresOfChunks {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "sum_of_squares";
  double* partial;
  const float* x;
  std::int64_t n;

  std::int64_t blocks() const { return divide_up(n, kNormChunk); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const std::int64_t begin = block.index() * kNormChunk;
    const std::int64_t end = begin + kNormChunk < n ? begin + kNormChunk : n;
    typename Block::template Own<double> own;
    block.each([&](int thread) {
      double sum = 0;
      for (std::int64_t i = begin + thread * kWidth; i < end; i += kThreads * kWidth) {
        if (i + kWidth <= end) {
          const Pack<float, kWidth> pack = load<kWidth>(x + i);
          for (const float value : pack.values) sum += square(value);
        } else {
          for (std::int64_t j = i; j < end; ++j) sum += square(x[j]);
        }
      }
      own[thread] = sum;
    });
    const double sum = block.reduce(own, Add{});
    block.last([&](int thread) {
      if (thread == 0) partial[block.index()] = sum;
    });
  }

 private:
  static NQD_DEVICE double square(float value) {
    const auto wide = static_cast<double>(value);
    return wide * wide;
  }
};

// *sum = the partial sums: thread t adds t, t + 256, …, then the threads are merged.
struct SumOfChunks {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "sum_of_squares";
  double* sum;
  const double* partial;
  std::int64_t count;

  std::int64_t blocks() const { return 1; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    typename Block::template Own<double> own;
    block.each([&](int thread) {
      double part = 0;
      for (std::int64_t i = thread; i < count; i += kThreads) part += partial[i];
      own[thread] = part;
    });
    const double total = block.reduce(own, Add{});
    block.last([&](int thread) {
      if (thread == 0) *sum = total;
    });
  }
};

template <typename Run>
void adamw_step(const Run& run, float* weights, const float* gradients, float* m, float* v,
                std::int64_t n, std::int64_t step, const AdamwOptions& options) {
  run_elements(run,
               Adamw<float, false>{weights, nullptr, gradients, m, v, AdamwFactors(options, step)},
               n, are_aligned(weights, gradients, m, v));
}
template <typename S, typename Run>
void adamw_step(const Run& run, float* weights, S* stored, const float* gradients, float* m,
                float* v, std::int64_t n, std::int64_t step, const AdamwOptions& options) {
  run_elements(run, Adamw<S, true>{weights, stored, gradients, m, v, AdamwFactors(options, step)},
               n, are_aligned(weights, stored, gradients, m, v));
}
template <typename Run>
void adamw_step_stochastic(const Run& run, BFloat16* weights, const float* gradients, float* m,
                           float* v, std::int64_t n, std::int64_t step, const AdamwOptions& options,
                           std::uint64_t seed, std::int64_t first) {
  const PhiloxKey key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  run_elements(run,
               StochasticAdamw{weights, gradients, m, v, AdamwFactors(options, step), key,
                               static_cast<std::uint32_t>(step), first},
               n, are_aligned(weights, gradients, m, v));
}

template <typename S, bool kStores, typename Run>
void sgd_any(const Run& run, float* weights, S* stored, const float* gradients, float* velocity,
             std::int64_t n, const SgdOptions& options) {
  const float keep = 1.0F - options.lr * options.weight_decay;
  const bool packed = are_aligned(weights, stored, gradients, velocity);
  if (velocity == nullptr) {
    run_elements(run, Sgd<S, kStores, false>{weights, stored, gradients, velocity, keep, options},
                 n, packed);
  } else {
    run_elements(run, Sgd<S, kStores, true>{weights, stored, gradients, velocity, keep, options}, n,
                 packed);
  }
}
template <typename Run>
void sgd_step(const Run& run, float* weights, const float* gradients, float* velocity,
              std::int64_t n, const SgdOptions& options) {
  sgd_any<float, false>(run, weights, static_cast<float*>(nullptr), gradients, velocity, n,
                        options);
}
template <typename S, typename Run>
void sgd_step(const Run& run, float* weights, S* stored, const float* gradients, float* velocity,
              std::int64_t n, const SgdOptions& options) {
  sgd_any<S, true>(run, weights, stored, gradients, velocity, n, options);
}
template <typename Run>
void ema_step(const Run& run, float* average, const float* weights, std::int64_t n, float decay) {
  run_elements(run, Ema{average, weights, 1.0F - decay}, n, are_aligned(average, weights));
}

template <typename Run>
void sum_of_squares(const Run& run, double* sum, const float* x, std::int64_t n, double* scratch) {
  if (are_aligned(x)) {
    run(SquaresOfChunks<kPackWidth<float>>{scratch, x, n});
  } else {
    run(SquaresOfChunks<1>{scratch, x, n});
  }
  run(SumOfChunks{sum, scratch, divide_up(n, kNormChunk)});
}

}  // namespace nqd::engine::cuda::bodies
