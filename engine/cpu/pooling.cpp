#include "engine/cpu/pooling.h"

#include <algorithm>
#include <array>

namespace nqd::engine::cpu {
namespace {

constexpr std::int64_t kColumns = 64;  // that are summed at a time

}  // namespace

template <typename S>
void mean_rows(S* out, const S* in, const PoolingShape& shape) {
  using T = Compute<S>;
  const auto steps = static_cast<T>(shape.steps);
  for (std::int64_t b = 0; b < shape.samples; ++b) {
    const S* const rows = in + b * shape.steps * shape.stride;
    for (std::int64_t first = 0; first < shape.width; first += kColumns) {
      const std::int64_t columns = std::min(kColumns, shape.width - first);
      std::array<T, kColumns> sums{};
      for (std::int64_t step = 0; step < shape.steps; ++step) {
        const S* __restrict x = rows + step * shape.stride + first;
        for (std::int64_t i = 0; i < columns; ++i) sums[i] += widen(x[i]);
      }
      S* __restrict y = out + b * shape.stride + first;
      for (std::int64_t i = 0; i < columns; ++i) y[i] = narrow<S>(sums[i] / steps);
    }
  }
}

template <typename T>
void mean_rows_backward(T* d_in, const T* d_out, std::int64_t first_row, std::int64_t rows,
                        std::int64_t steps, std::int64_t width) {
  const auto count = static_cast<T>(steps);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* __restrict from = d_out + (first_row + row) / steps * width;
    T* __restrict to = d_in + row * width;
    for (std::int64_t i = 0; i < width; ++i) to[i] = from[i] / count;
  }
}

template void mean_rows<float>(float*, const float*, const PoolingShape&);
template void mean_rows<double>(double*, const double*, const PoolingShape&);
template void mean_rows<BFloat16>(BFloat16*, const BFloat16*, const PoolingShape&);
template void mean_rows<Float16>(Float16*, const Float16*, const PoolingShape&);
template void mean_rows_backward<float>(float*, const float*, std::int64_t, std::int64_t,
                                        std::int64_t, std::int64_t);
template void mean_rows_backward<double>(double*, const double*, std::int64_t, std::int64_t,
                                         std::int64_t, std::int64_t);

}  // namespace nqd::engine::cpu
