// engine/cpu/rotary.h on the device: the same bits.
#pragma once

#include "engine/cpu/rotary.h"
#include "engine/cuda/kernels/bodies/elements.h"

namespace nqd::engine::cuda::bodies {

// Element i is a pair of columns: i = (row · heads + head) · half + column.
template <typename S>
struct Rotate {
  static constexpr const char* kName = "rotary";
  static constexpr int kWidth = kPackWidth<S>;
  S* x;
  const float* cosines;
  const float* sines;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t half;
  std::int64_t stride;
  float direction;  // −1 turns back

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place pair = place_of(i, half);
    const Place head = place_of(pair.row, heads);
    const std::int64_t angle = place_of(head.row, sequence).column * half + pair.column;
    S* low_at = x + head.row * stride + head.column * 2 * half + pair.column;
    S* high_at = low_at + half;
    const Pack<float, kCount> cosine = load<kCount>(cosines + angle);
    const Pack<float, kCount> sine = load<kCount>(sines + angle);
    Pack<S, kCount> low = load<kCount>(low_at);
    Pack<S, kCount> high = load<kCount>(high_at);
    for (int k = 0; k < kCount; ++k) {
      const float a = Block::widen(low.values[k]);
      const float b = Block::widen(high.values[k]);
      const float s = direction * sine.values[k];
      low.values[k] = Block::template narrow<S>(a * cosine.values[k] - b * s);
      high.values[k] = Block::template narrow<S>(b * cosine.values[k] + a * s);
    }
    store(low_at, low);
    store(high_at, high);
  }
};

template <typename S, typename Run>
void rotate(const Run& run, S* x, const float* cosines, const float* sines,
            const cpu::RotaryShape& shape, float direction) {
  const std::int64_t half = shape.head_width / 2;
  const bool packed = are_aligned(x, cosines, sines) && half % kPackWidth<S> == 0 &&
                      shape.stride % kPackWidth<S> == 0;
  run_elements(
      run, Rotate<S>{x, cosines, sines, shape.sequence, shape.heads, half, shape.stride, direction},
      shape.rows * shape.heads * half, packed);
}

}  // namespace nqd::engine::cuda::bodies
