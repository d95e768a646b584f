#include "engine/cpu/cross_entropy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "engine/cpu/math.h"

namespace nqd::engine::cpu {
namespace {

// The maximum of widened elements, as lane_max.
template <typename S>
Compute<S> row_maximum(const S* x, std::int64_t n) {
  using T = Compute<S>;
  std::array<T, kLanes> lanes;
  lanes.fill(-std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const T value = widen(x[i + lane]);
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (int lane = 0; i < n; ++i, ++lane) {
    const T value = widen(x[i]);
    lanes[lane] = value > lanes[lane] ? value : lanes[lane];
  }
  return merge_lanes(lanes, [](T a, T b) { return a > b ? a : b; });
}

// The node of slices [first, first + slices).
template <typename S>
Compute<S> sum_slices(const S* row, Compute<S> maximum, std::int64_t first, std::int64_t slices,
                      const LogitsShape& shape) {
  using T = Compute<S>;
  if (slices == 1) {
    const std::int64_t begin = std::min(first * shape.slice_width, shape.valid);
    const std::int64_t end = std::min(begin + shape.slice_width, shape.valid);
    const S* x = row + begin;
    return lane_sum<T>(end - begin,
                       [=](std::int64_t i) { return fast_exp(widen(x[i]) - maximum); });
  }
  const auto left =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(slices - 1)));
  const T low = sum_slices(row, maximum, first, left, shape);
  return low + sum_slices(row, maximum, first + left, slices - left, shape);
}

}  // namespace

template <typename S>
void cross_entropy_maximum(Compute<S>* maximum, const S* logits, const LogitsShape& shape) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    maximum[row] = row_maximum(logits + row * shape.stride, shape.valid);
  }
}

template <typename S>
void cross_entropy_sums(Compute<S>* sum, Compute<S>* target_logit, const S* logits,
                        const std::int32_t* targets, const Compute<S>* maximum,
                        const LogitsShape& shape) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const S* x = logits + row * shape.stride;
    const std::int64_t target = targets[row] - shape.first;
    const bool here = targets[row] != kNoTarget && target >= 0 && target < shape.valid;
    sum[row] = sum_slices(x, maximum[row], 0, shape.slices, shape);
    target_logit[row] = here ? widen(x[target]) : Compute<S>(0);
  }
}

template <typename S>
void cross_entropy_statistics(Compute<S>* maximum, Compute<S>* sum, Compute<S>* target_logit,
                              const S* logits, const std::int32_t* targets,
                              const LogitsShape& shape) {
  LogitsShape one = shape;
  one.rows = 1;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const S* x = logits + row * shape.stride;
    cross_entropy_maximum(maximum + row, x, one);
    cross_entropy_sums(sum + row, target_logit + row, x, targets + row, maximum + row, one);
  }
}

template <typename T>
void cross_entropy_losses(double* loss, const T* maximum, const T* sum, const T* target_logit,
                          const std::int32_t* targets, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const double value = static_cast<double>(maximum[row]) -
                         static_cast<double>(target_logit[row]) +
                         std::log(static_cast<double>(sum[row]));
    loss[row] = targets[row] == kNoTarget ? 0.0 : value;
  }
}

template <typename S>
void cross_entropy_backward(S* logits, const std::int32_t* targets, const Compute<S>* maximum,
                            const Compute<S>* sum, Compute<S> scale, const LogitsShape& shape) {
  using T = Compute<S>;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    S* __restrict x = logits + row * shape.stride;
    if (targets[row] == kNoTarget) {
      std::fill_n(x, shape.stride, S{});
      continue;
    }
    const T shift = maximum[row];
    const T inverse = T(1) / sum[row];
    const std::int64_t target = targets[row] - shape.first;
    const bool here = target >= 0 && target < shape.valid;
    const T at_target = here ? fast_exp(widen(x[target]) - shift) * inverse : T(0);
    for (std::int64_t i = 0; i < shape.valid; ++i) {
      x[i] = narrow<S>(fast_exp(widen(x[i]) - shift) * inverse * scale);
    }
    if (here) x[target] = narrow<S>((at_target - T(1)) * scale);
    std::fill(x + shape.valid, x + shape.stride, S{});
  }
}

template <typename S>
void cross_entropy_backward_narrow(float* logits, const std::int32_t* targets, const float* maximum,
                                   const float* sum, float scale, const LogitsShape& shape) {
  constexpr std::int64_t kChunk = 256;
  LogitsShape one = shape;
  one.rows = 1;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    float* const x = logits + row * shape.stride;
    cross_entropy_backward(x, targets + row, maximum + row, sum + row, scale, one);
    // A chunk's place ends before the next chunk's values begin.
    for (std::int64_t first = 0; first < shape.stride; first += kChunk) {
      const std::int64_t count = std::min(kChunk, shape.stride - first);
      S stored[kChunk];
      for (std::int64_t i = 0; i < count; ++i) stored[i] = narrow<S>(x[first + i]);
      std::memcpy(reinterpret_cast<std::byte*>(x) + first * static_cast<std::int64_t>(sizeof(S)),
                  stored, static_cast<std::size_t>(count) * sizeof(S));
    }
  }
}

template void cross_entropy_backward_narrow<BFloat16>(float*, const std::int32_t*, const float*,
                                                      const float*, float, const LogitsShape&);
template void cross_entropy_backward_narrow<Float16>(float*, const std::int32_t*, const float*,
                                                     const float*, float, const LogitsShape&);

template void cross_entropy_losses<float>(double*, const float*, const float*, const float*,
                                          const std::int32_t*, std::int64_t);
template void cross_entropy_losses<double>(double*, const double*, const double*, const double*,
                                           const std::int32_t*, std::int64_t);

#define NQD_INSTANTIATE(S)                                                                     \
  template void cross_entropy_maximum<S>(Compute<S>*, const S*, const LogitsShape&);           \
  template void cross_entropy_sums<S>(Compute<S>*, Compute<S>*, const S*, const std::int32_t*, \
                                      const Compute<S>*, const LogitsShape&);                  \
  template void cross_entropy_statistics<S>(Compute<S>*, Compute<S>*, Compute<S>*, const S*,   \
                                            const std::int32_t*, const LogitsShape&);          \
  template void cross_entropy_backward<S>(S*, const std::int32_t*, const Compute<S>*,          \
                                          const Compute<S>*, Compute<S>, const LogitsShape&)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(double);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cpu
