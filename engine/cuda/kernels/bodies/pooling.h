// engine/cpu/pooling.h on the device, with the same bits, and rows that repeat.
#pragma once

#include "engine/cpu/pooling.h"
#include "engine/cuda/kernels/bodies/elements.h"

namespace nqd::engine::cuda::bodies {

// Element i is (sample, column).
template <typename S>
struct MeanRows {
  static constexpr const char* kName = "mean_rows";
  static constexpr int kWidth = 1;
  S* out;
  const S* in;
  std::int64_t steps;
  std::int64_t width;
  std::int64_t stride;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place place = place_of(i, width);
    const S* from = in + place.row * steps * stride + place.column;
    float sum = 0;
    for (std::int64_t step = 0; step < steps; ++step) sum += Block::widen(from[step * stride]);
    out[place.row * stride + place.column] =
        Block::template narrow<S>(sum / static_cast<float>(steps));
  }
};

struct MeanRowsBackward {
  static constexpr const char* kName = "mean_rows_backward";
  static constexpr int kWidth = 1;
  float* d_in;
  const float* d_out;
  std::int64_t first_row;
  std::int64_t steps;
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place place = place_of(i, width);
    const std::int64_t sample = place_of(first_row + place.row, steps).row;
    d_in[i] = d_out[sample * width + place.column] / static_cast<float>(steps);
  }
};

template <typename To, typename From>
struct SpreadRow {
  static constexpr const char* kName = "spread_row";
  static constexpr int kWidth = 1;
  To* out;
  std::int64_t stride;
  const From* row;
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place place = place_of(i, width);
    out[place.row * stride + place.column] =
        Block::template narrow<To>(Block::widen(row[place.column]));
  }
};

template <typename S, typename Run>
void mean_rows(const Run& run, S* out, const S* in, const cpu::PoolingShape& shape) {
  run_elements(run, MeanRows<S>{out, in, shape.steps, shape.width, shape.stride},
               shape.samples * shape.width, false);
}
template <typename Run>
void mean_rows_backward(const Run& run, float* d_in, const float* d_out, std::int64_t first_row,
                        std::int64_t rows, std::int64_t steps, std::int64_t width) {
  run_elements(run, MeanRowsBackward{d_in, d_out, first_row, steps, width}, rows * width, false);
}
template <typename To, typename From, typename Run>
void spread_row(const Run& run, To* out, std::int64_t stride, const From* row, std::int64_t rows,
                std::int64_t width) {
  run_elements(run, SpreadRow<To, From>{out, stride, row, width}, rows * width, false);
}

}  // namespace nqd::engine::cuda::bodies
