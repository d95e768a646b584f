// engine/cpu/cross_entropy.h on the device. The sum over a slice of the vocabulary: thread t adds
// packs t, t + 256, … of the slice, then the block's threads are merged; slices are added in the
// tree. A slice's sum does not depend on which rank holds it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/cpu/cross_entropy.h"
#include "engine/cuda/kernels/bodies/elements.h"

namespace nqd::engine::cuda::bodies {

// A block a row: use(element) of elements [begin, end) of x by thread, packed where begin is.
template <typename Block, int kWidth, typename S, typename Use>
NQD_DEVICE void for_each_of_row(int thread, const S* x, std::int64_t begin, std::int64_t end,
                                const Use& use) {
  for (std::int64_t i = begin + thread * kWidth; i < end; i += Block::kThreads * kWidth) {
    if (i + kWidth <= end) {
      const Pack<S, kWidth> pack = load<kWidth>(x + i);
      for (const S& value : pack.values) use(Block::widen(value));
    } else {
      for (std::int64_t j = i; j < end; ++j) use(Block::widen(x[j]));
    }
  }
}

template <typename S, int kWidth>
struct RowMaximum {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "cross_entropy_maximum";
  float* maximum;
  const S* logits;
  std::int64_t rows;
  std::int64_t stride;
  std::int64_t valid;

  std::int64_t blocks() const { return rows; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const S* x = logits + block.index() * stride;
    typename Block::template Own<float> own;
    block.each([&](int thread) {
      float largest = -std::numeric_limits<float>::infinity();
      for_each_of_row<Block, kWidth>(
          thread, x, 0, valid, [&](float value) { largest = value > largest ? value : largest; });
      own[thread] = largest;
    });
    const float largest = block.reduce(own, Larger{});
    block.last([&](int thread) {
      if (thread == 0) maximum[block.index()] = largest;
    });
  }
};

template <typename S, int kWidth>
struct RowSums {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "cross_entropy_sums";
  float* sum;
  float* target_logit;
  const S* logits;
  const std::int32_t* targets;
  const float* maximum;
  cpu::LogitsShape shape;

  std::int64_t blocks() const { return shape.rows; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const std::int64_t row = block.index();
    const S* x = logits + row * shape.stride;
    const float shift = maximum[row];
    TreeSum<float> total;
    for (std::int64_t slice = 0; slice < shape.slices; ++slice) {
      const std::int64_t from = slice * shape.slice_width;
      const std::int64_t begin = from < shape.valid ? from : shape.valid;
      const std::int64_t to = begin + shape.slice_width;
      const std::int64_t end = to < shape.valid ? to : shape.valid;
      typename Block::template Own<float> own;
      block.each([&](int thread) {
        float part = 0;
        for_each_of_row<Block, kWidth>(thread, x, begin, end,
                                       [&](float value) { part += std::exp(value - shift); });
        own[thread] = part;
      });
      total.add(block.reduce(own, Add{}));
    }
    block.last([&](int thread) {
      if (thread != 0) return;
      const std::int64_t target = targets[row] - shape.first;
      const bool here = targets[row] != cpu::kNoTarget && target >= 0 && target < shape.valid;
      sum[row] = total.total();
      target_logit[row] = here ? Block::widen(x[target]) : 0.0F;
    });
  }
};

struct Losses {
  static constexpr const char* kName = "cross_entropy_losses";
  static constexpr int kWidth = 1;
  double* loss;
  const float* maximum;
  const float* sum;
  const float* target_logit;
  const std::int32_t* targets;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t row) const {
    const double value = static_cast<double>(maximum[row]) -
                         static_cast<double>(target_logit[row]) +
                         std::log(static_cast<double>(sum[row]));
    loss[row] = targets[row] == cpu::kNoTarget ? 0.0 : value;
  }
};

template <typename S>
struct LogitsGradient {
  static constexpr const char* kName = "cross_entropy_backward";
  static constexpr int kWidth = kPackWidth<S>;
  S* logits;
  const std::int32_t* targets;
  const float* maximum;
  const float* sum;
  float scale;
  std::int64_t stride;
  std::int64_t valid;
  std::int64_t first;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place place = place_of(i, stride);
    const std::int32_t target = targets[place.row];
    const float shift = maximum[place.row];
    const float inverse = 1.0F / sum[place.row];
    Pack<S, kCount> pack = load<kCount>(logits + i);
    for (int k = 0; k < kCount; ++k) {
      const std::int64_t column = place.column + k;
      const float p = std::exp(Block::widen(pack.values[k]) - shift) * inverse;
      const float own = column == target - first ? (p - 1.0F) * scale : p * scale;
      const bool counts = target != cpu::kNoTarget && column < valid;
      pack.values[k] = Block::template narrow<S>(counts ? own : 0.0F);
    }
    store(logits + i, pack);
  }
};

// Slices begin at packs where their width is whole packs, or there is one alone.
template <typename S>
bool rows_are_packed(const S* logits, const cpu::LogitsShape& shape) {
  constexpr std::int64_t kWidth = kPackWidth<S>;
  return are_aligned(logits) && shape.stride % kWidth == 0 &&
         (shape.slices == 1 || shape.slice_width % kWidth == 0);
}

template <typename S, typename Run>
void cross_entropy_maximum(const Run& run, float* maximum, const S* logits,
                           const cpu::LogitsShape& shape) {
  if (rows_are_packed(logits, shape)) {
    run(RowMaximum<S, kPackWidth<S>>{maximum, logits, shape.rows, shape.stride, shape.valid});
  } else {
    run(RowMaximum<S, 1>{maximum, logits, shape.rows, shape.stride, shape.valid});
  }
}
template <typename S, typename Run>
void cross_entropy_sums(const Run& run, float* sum, float* target_logit, const S* logits,
                        const std::int32_t* targets, const float* maximum,
                        const cpu::LogitsShape& shape) {
  if (rows_are_packed(logits, shape)) {
    run(RowSums<S, kPackWidth<S>>{sum, target_logit, logits, targets, maximum, shape});
  } else {
    run(RowSums<S, 1>{sum, target_logit, logits, targets, maximum, shape});
  }
}
template <typename Run>
void cross_entropy_losses(const Run& run, double* loss, const float* maximum, const float* sum,
                          const float* target_logit, const std::int32_t* targets,
                          std::int64_t rows) {
  run_elements(run, Losses{loss, maximum, sum, target_logit, targets}, rows, false);
}
template <typename S, typename Run>
void cross_entropy_backward(const Run& run, S* logits, const std::int32_t* targets,
                            const float* maximum, const float* sum, float scale,
                            const cpu::LogitsShape& shape) {
  const bool packed = are_aligned(logits) && shape.stride % kPackWidth<S> == 0;
  run_elements(run,
               LogitsGradient<S>{logits, targets, maximum, sum, scale, shape.stride, shape.valid,
                                 shape.first},
               shape.rows * shape.stride, packed);
}

}  // namespace nqd::engine::cuda::bodies
