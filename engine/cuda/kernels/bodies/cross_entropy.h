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

// Of numbers that come one after another: the largest, and Σ e^(x − largest). −∞ counts nothing.
struct RunningSum {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0;

  static NQD_DEVICE float shift_of(float largest) {
    return largest == -std::numeric_limits<float>::infinity() ? 0.0F : largest;
  }
  template <int kCount>
  NQD_DEVICE void add(const float (&values)[kCount]) {
    float next = largest;
    for (int k = 0; k < kCount; ++k) next = values[k] > next ? values[k] : next;
    const float shift = shift_of(next);
    if (next != largest) sum *= std::exp(largest - shift);
    largest = next;
    for (int k = 0; k < kCount; ++k) sum += std::exp(values[k] - shift);
  }
};

// Maximum and sum of a row of one slice: each thread's own of packs t, t + 256, …, scaled to the
// largest of all and then merged.
template <typename S, int kWidth>
struct RowStatistics {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "cross_entropy_statistics";
  float* maximum;
  float* sum;
  float* target_logit;
  const S* logits;
  const std::int32_t* targets;
  cpu::LogitsShape shape;

  std::int64_t blocks() const { return shape.rows; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const std::int64_t row = block.index();
    const S* x = logits + row * shape.stride;
    typename Block::template Own<RunningSum> running;
    typename Block::template Own<float> own;
    block.each([&](int thread) {
      running[thread] = of_thread<Block>(thread, x);
      own[thread] = running[thread].largest;
    });
    const float largest = block.reduce(own, Larger{});
    block.each([&](int thread) {
      const RunningSum& mine = running[thread];
      own[thread] = mine.sum == 0.0F ? 0.0F : mine.sum * std::exp(mine.largest - largest);
    });
    const float total = block.reduce(own, Add{});
    block.last([&](int thread) {
      if (thread != 0) return;
      const std::int64_t target = targets[row] - shape.first;
      const bool here = targets[row] != cpu::kNoTarget && target >= 0 && target < shape.valid;
      maximum[row] = largest;
      sum[row] = total;
      target_logit[row] = here ? Block::widen(x[target]) : 0.0F;
    });
  }

 private:
  template <typename Block>
  NQD_DEVICE RunningSum of_thread(int thread, const S* x) const {
    RunningSum mine;
    for (std::int64_t i = thread * kWidth; i < shape.valid; i += kThreads * kWidth) {
      const bool whole = i + kWidth <= shape.valid;
      float values[kWidth];
      if (whole) {
        const Pack<S, kWidth> pack = load<kWidth>(x + i);
        for (int k = 0; k < kWidth; ++k) values[k] = Block::widen(pack.values[k]);
      } else {
        for (int k = 0; k < kWidth; ++k) {
          values[k] = i + k < shape.valid ? Block::widen(x[i + k])
                                          : -std::numeric_limits<float>::infinity();
        }
      }
      mine.add(values);
    }
    return mine;
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

// The gradient of a row's logits.
struct RowGradient {
  std::int32_t target;
  float shift;
  float inverse;
  float scale;
  std::int64_t valid;
  std::int64_t first;

  NQD_DEVICE float of(float logit, std::int64_t column) const {
    if (target == cpu::kNoTarget || column >= valid) return 0.0F;
    const float p = std::exp(logit - shift) * inverse;
    return column == target - first ? (p - 1.0F) * scale : p * scale;
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
    const RowGradient row{
        targets[place.row], maximum[place.row], 1.0F / sum[place.row], scale, valid, first};
    Pack<S, kCount> pack = load<kCount>(logits + i);
    for (int k = 0; k < kCount; ++k) {
      pack.values[k] =
          Block::template narrow<S>(row.of(Block::widen(pack.values[k]), place.column + k));
    }
    store(logits + i, pack);
  }
};

// A block a row, whose gradient takes the first half of its place: all threads read a stretch of
// the row before any of them writes what it becomes, which ends before the next stretch begins.
template <typename S, int kWidth>
struct NarrowLogitsGradient {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = "cross_entropy_backward_narrow";
  float* logits;
  const std::int32_t* targets;
  const float* maximum;
  const float* sum;
  float scale;
  cpu::LogitsShape shape;

  std::int64_t blocks() const { return shape.rows; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const std::int64_t at = block.index();
    const RowGradient row{targets[at], maximum[at], 1.0F / sum[at],
                          scale,       shape.valid, shape.first};
    const float* const from = logits + at * shape.stride;
    S* const to = reinterpret_cast<S*>(logits + at * shape.stride);
    for (std::int64_t first = 0; first < shape.stride; first += kThreads * kWidth) {
      typename Block::template Own<Pack<S, kWidth>> gradient;
      block.each([&](int thread) {
        const std::int64_t column = first + thread * kWidth;
        if (column >= shape.stride) return;
        const Pack<float, kWidth> in = load<kWidth>(from + column);
        for (int k = 0; k < kWidth; ++k) {
          gradient[thread].values[k] = Block::template narrow<S>(row.of(in.values[k], column + k));
        }
      });
      block.last([&](int thread) {
        const std::int64_t column = first + thread * kWidth;
        if (column < shape.stride) store(to + column, gradient[thread]);
      });
    }
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
template <typename S, typename Run>
void cross_entropy_statistics(const Run& run, float* maximum, float* sum, float* target_logit,
                              const S* logits, const std::int32_t* targets,
                              const cpu::LogitsShape& shape) {
  if (shape.slices > 1) {
    cross_entropy_maximum(run, maximum, logits, shape);
    cross_entropy_sums(run, sum, target_logit, logits, targets, maximum, shape);
  } else if (rows_are_packed(logits, shape)) {
    run(RowStatistics<S, kPackWidth<S>>{maximum, sum, target_logit, logits, targets, shape});
  } else {
    run(RowStatistics<S, 1>{maximum, sum, target_logit, logits, targets, shape});
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

template <typename S, typename Run>
void cross_entropy_backward_narrow(const Run& run, float* logits, const std::int32_t* targets,
                                   const float* maximum, const float* sum, float scale,
                                   const cpu::LogitsShape& shape) {
  constexpr int kWidth = kPackWidth<S>;
  if (are_aligned(logits) && shape.stride % kWidth == 0) {
    run(NarrowLogitsGradient<S, kWidth>{logits, targets, maximum, sum, scale, shape});
  } else {
    run(NarrowLogitsGradient<S, 1>{logits, targets, maximum, sum, scale, shape});
  }
}

}  // namespace nqd::engine::cuda::bodies
