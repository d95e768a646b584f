// engine/cpu/epilogue.h and the dropout of engine/cpu/dropout.h on the device: the same bits.
#pragma once

#include "engine/cpu/dropout_stream.h"
#include "engine/cuda/kernels/bodies/elements.h"

namespace nqd::engine::cuda::bodies {

// Elements of the tensor that 16 Philox blocks decide, and those blocks.
inline constexpr std::int64_t kDropoutGroup = 64;
inline constexpr std::int64_t kDropoutLanes = 16;

// The factor of one element, for kernels whose elements do not come in groups.
NQD_DEVICE inline float dropout_factor(const cpu::DropoutStream& stream, std::uint64_t element) {
  const PhiloxCounter words =
      stream.now().words(element / kDropoutGroup * kDropoutLanes + element % kDropoutLanes);
  const std::uint64_t word = element / kDropoutLanes % 4;
  const std::uint32_t low = word == 0 ? words[0] : words[1];
  const std::uint32_t high = word == 2 ? words[2] : words[3];
  return (word < 2 ? low : high) >= stream.threshold ? static_cast<float>(stream.kept) : 0.0F;
}

// One thread computes one Philox block: elements lane, lane + 16, lane + 32 and lane + 48 of a
// group, so that 16 threads read adjacent elements. The run is elements [first, first + n) of the
// tensor. An Op has kName and at<Block>(i, factor) for element first + i.
template <typename Op>
struct DropoutElements {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = Op::kName;
  Op op;
  cpu::DropoutStream stream;
  std::int64_t first;
  std::int64_t n;

  std::int64_t blocks() const {
    if (n == 0) return 0;
    const std::int64_t groups = divide_up(first + n, kDropoutGroup) - first / kDropoutGroup;
    return divide_up(groups * kDropoutLanes, kThreads);
  }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::int64_t at = block.index() * kThreads + thread;
      const std::int64_t group = first / kDropoutGroup + at / kDropoutLanes;
      const std::int64_t lane = at % kDropoutLanes;
      const PhiloxCounter words =
          stream.now().words(static_cast<std::uint64_t>(group * kDropoutLanes + lane));
      NQD_UNROLL
      for (int word = 0; word < 4; ++word) {
        const std::int64_t i = group * kDropoutGroup + word * kDropoutLanes + lane - first;
        if (i < 0 || i >= n) continue;
        const bool kept = words[static_cast<std::size_t>(word)] >= stream.threshold;
        op.template at<Block>(i, kept ? static_cast<float>(stream.kept) : 0.0F);
      }
    });
  }
};

template <typename S>
struct ApplyDropout {
  static constexpr const char* kName = "apply_dropout";
  S* y;
  const S* x;

  template <typename Block>
  NQD_DEVICE void at(std::int64_t i, float factor) const {
    y[i] = Block::template narrow<S>(Block::widen(x[i]) * factor);
  }
};

// out = residual + dropout(product + bias).
template <typename S>
struct Epilogue {
  static constexpr const char* kName = "bias_dropout_residual";
  static constexpr int kWidth = kPackWidth<S>;
  S* out;
  const float* product;
  const S* bias;      // may be null
  const S* residual;  // may be null
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    finish<Block, kCount>(i, 1.0F, false);
  }
  template <typename Block>
  NQD_DEVICE void at(std::int64_t i, float factor) const {
    finish<Block, 1>(i, factor, true);
  }

 private:
  template <typename Block, int kCount>
  NQD_DEVICE void finish(std::int64_t i, float factor, bool drops) const {
    Pack<float, kCount> value = load<kCount>(product + i);
    // Adding the zero of an absent term would turn −0 into +0.
    if (bias != nullptr) {
      const Pack<S, kCount> added = load<kCount>(bias + place_of(i, width).column);
      for (int k = 0; k < kCount; ++k) value.values[k] += Block::widen(added.values[k]);
    }
    if (drops) {
      for (float& v : value.values) v *= factor;
    }
    if (residual != nullptr) {
      const Pack<S, kCount> past = load<kCount>(residual + i);
      for (int k = 0; k < kCount; ++k) {
        value.values[k] = Block::widen(past.values[k]) + value.values[k];
      }
    }
    Pack<S, kCount> sum;
    for (int k = 0; k < kCount; ++k) sum.values[k] = Block::template narrow<S>(value.values[k]);
    store(out + i, sum);
  }
};

template <typename S, typename Run>
void apply_dropout(const Run& run, S* y, const S* x, const cpu::Dropout& dropout,
                   std::int64_t first, std::int64_t n) {
  run(DropoutElements<ApplyDropout<S>>{{y, x}, cpu::stream_of(dropout), first, n});
}

template <typename S, typename Run>
void bias_dropout_residual(const Run& run, S* out, const float* product, const S* bias,
                           const S* residual, std::int64_t rows, std::int64_t width,
                           const cpu::Dropout* dropout, std::int64_t first_row) {
  const Epilogue<S> op{out, product, bias, residual, width};
  if (dropout != nullptr) {
    run(DropoutElements<Epilogue<S>>{op, cpu::stream_of(*dropout), first_row * width,
                                     rows * width});
    return;
  }
  const bool packed = are_aligned(out, product, bias, residual) && width % kPackWidth<S> == 0;
  run_elements(run, op, rows * width, packed);
}

}  // namespace nqd::engine::cuda::bodies
