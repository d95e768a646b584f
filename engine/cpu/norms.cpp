#include "engine/cpu/norms.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/math.h"
#include "engine/cpu/row_sums.h"

namespace nqd::engine::cpu {
namespace {

// dx = residual + own(i), through a buffer on the stack, so that the loops vectorise although dx
// may be what they read.
template <typename S, typename Own>
void write_gradient(S* dx, const S* residual, std::int64_t width, const Own& own) {
  constexpr std::int64_t kChunk = 256;
  Compute<S> values[kChunk];
  for (std::int64_t first = 0; first < width; first += kChunk) {
    const std::int64_t count = std::min(kChunk, width - first);
    for (std::int64_t i = 0; i < count; ++i) values[i] = own(first + i);
    if (residual != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) values[i] = widen(residual[first + i]) + values[i];
    }
    for (std::int64_t i = 0; i < count; ++i) dx[first + i] = narrow<S>(values[i]);
  }
}

}  // namespace

template <typename S>
void layer_norm_forward(S* y_rows, Compute<S>* mean, Compute<S>* rstd, const S* x_rows,
                        const S* weight, const S* bias, const NormShape& shape) {
  using T = Compute<S>;
  const std::int64_t width = shape.width;
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const S* __restrict x = x_rows + row * width;
    S* __restrict y = y_rows + row * width;
    const S* __restrict w = weight;
    const S* __restrict b = bias;
    const T m = inverse_width * lane_sum<T>(width, [x](std::int64_t i) { return widen(x[i]); });
    const T variance = inverse_width * lane_sum<T>(width, [x, m](std::int64_t i) {
                         return (widen(x[i]) - m) * (widen(x[i]) - m);
                       });
    const T r = T(1) / std::sqrt(variance + static_cast<T>(shape.epsilon));
    for (std::int64_t i = 0; i < width; ++i) {
      y[i] = narrow<S>((widen(x[i]) - m) * r * widen(w[i]) + widen(b[i]));
    }
    mean[row] = m;
    rstd[row] = r;
  }
}

template <typename S>
void layer_norm_backward_input(S* dx_rows, const S* residual, const S* dy_rows, const S* x_rows,
                               const S* weight, const Compute<S>* mean, const Compute<S>* rstd,
                               const NormShape& shape) {
  using T = Compute<S>;
  const std::int64_t width = shape.width;
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const S* x = x_rows + row * width;
    const S* dy = dy_rows + row * width;
    const S* w = weight;
    const T m = mean[row];
    const T r = rstd[row];
    const auto g = [=](std::int64_t i) { return widen(dy[i]) * widen(w[i]); };
    const auto z = [=](std::int64_t i) { return (widen(x[i]) - m) * r; };
    const T g_average = inverse_width * lane_sum<T>(width, g);
    const T gz_average =
        inverse_width * lane_sum<T>(width, [=](std::int64_t i) { return g(i) * z(i); });
    const auto own = [=](std::int64_t i) { return r * (g(i) - g_average - z(i) * gz_average); };
    write_gradient(dx_rows + row * width, residual == nullptr ? nullptr : residual + row * width,
                   width, own);
  }
}

template <typename S>
void layer_norm_backward_weight(Compute<S>* weight_gradient, Compute<S>* bias_gradient, const S* dy,
                                const S* x, const Compute<S>* mean, const Compute<S>* rstd,
                                const NormShape& shape, std::int64_t blocks) {
  using T = Compute<S>;
  add_row_sums<T, 2>(
      {weight_gradient, bias_gradient}, shape.rows, shape.width, blocks, {},
      [&](std::int64_t row, std::int64_t first, std::int64_t columns, PartialSums<T, 2>& sums) {
        const S* __restrict x_row = x + row * shape.row_stride() + first;
        const S* __restrict dy_row = dy + row * shape.row_stride() + first;
        T* __restrict dw = sums.values[0];
        T* __restrict db = sums.values[1];
        const T m = mean[row];
        const T r = rstd[row];
        for (std::int64_t i = 0; i < columns; ++i) {
          const T d = widen(dy_row[i]);
          dw[i] += d * ((widen(x_row[i]) - m) * r);
          db[i] += d;
        }
      });
}

template <typename S>
void rms_norm_forward(S* y_rows, Compute<S>* rstd, const S* x_rows, const S* weight,
                      const NormShape& shape) {
  using T = Compute<S>;
  const std::int64_t width = shape.width;
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const S* __restrict x = x_rows + row * width;
    S* __restrict y = y_rows + row * width;
    const S* __restrict w = weight;
    const T mean_square = inverse_width * lane_sum<T>(width, [x](std::int64_t i) {
                            return widen(x[i]) * widen(x[i]);
                          });
    const T r = T(1) / std::sqrt(mean_square + static_cast<T>(shape.epsilon));
    for (std::int64_t i = 0; i < width; ++i) y[i] = narrow<S>(widen(x[i]) * r * widen(w[i]));
    rstd[row] = r;
  }
}

template <typename S>
void rms_norm_backward_input(S* dx_rows, const S* residual, const S* dy_rows, const S* x_rows,
                             const S* weight, const Compute<S>* rstd, const NormShape& shape) {
  using T = Compute<S>;
  const std::int64_t width = shape.width;
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const S* x = x_rows + row * width;
    const S* dy = dy_rows + row * width;
    const S* w = weight;
    const T r = rstd[row];
    const auto g = [=](std::int64_t i) { return widen(dy[i]) * widen(w[i]); };
    const auto z = [=](std::int64_t i) { return widen(x[i]) * r; };
    const T gz_average =
        inverse_width * lane_sum<T>(width, [=](std::int64_t i) { return g(i) * z(i); });
    const auto own = [=](std::int64_t i) { return r * (g(i) - z(i) * gz_average); };
    write_gradient(dx_rows + row * width, residual == nullptr ? nullptr : residual + row * width,
                   width, own);
  }
}

template <typename S>
void rms_norm_backward_weight(Compute<S>* weight_gradient, const S* dy, const S* x,
                              const Compute<S>* rstd, const NormShape& shape, std::int64_t blocks) {
  using T = Compute<S>;
  add_row_sums<T, 1>(
      {weight_gradient}, shape.rows, shape.width, blocks, {},
      [&](std::int64_t row, std::int64_t first, std::int64_t columns, PartialSums<T, 1>& sums) {
        const S* __restrict x_row = x + row * shape.row_stride() + first;
        const S* __restrict dy_row = dy + row * shape.row_stride() + first;
        T* __restrict dw = sums.values[0];
        const T r = rstd[row];
        for (std::int64_t i = 0; i < columns; ++i) {
          dw[i] += widen(dy_row[i]) * (widen(x_row[i]) * r);
        }
      });
}

template <typename S>
void add_column_sums(Compute<S>* gradient, const S* x, std::int64_t rows, std::int64_t width,
                     std::int64_t stride, std::int64_t blocks) {
  using T = Compute<S>;
  add_row_sums<T, 1>(
      {gradient}, rows, width, blocks, {},
      [&](std::int64_t row, std::int64_t first, std::int64_t columns, PartialSums<T, 1>& sums) {
        const S* __restrict in = x + row * stride + first;
        T* __restrict sum = sums.values[0];
        for (std::int64_t i = 0; i < columns; ++i) sum[i] += widen(in[i]);
      });
}

#define NQD_INSTANTIATE(S)                                                                        \
  template void layer_norm_forward<S>(S*, Compute<S>*, Compute<S>*, const S*, const S*, const S*, \
                                      const NormShape&);                                          \
  template void layer_norm_backward_input<S>(S*, const S*, const S*, const S*, const S*,          \
                                             const Compute<S>*, const Compute<S>*,                \
                                             const NormShape&);                                   \
  template void layer_norm_backward_weight<S>(Compute<S>*, Compute<S>*, const S*, const S*,       \
                                              const Compute<S>*, const Compute<S>*,               \
                                              const NormShape&, std::int64_t);                    \
  template void rms_norm_forward<S>(S*, Compute<S>*, const S*, const S*, const NormShape&);       \
  template void rms_norm_backward_input<S>(S*, const S*, const S*, const S*, const S*,            \
                                           const Compute<S>*, const NormShape&);                  \
  template void rms_norm_backward_weight<S>(Compute<S>*, const S*, const S*, const Compute<S>*,   \
                                            const NormShape&, std::int64_t);                      \
  template void add_column_sums<S>(Compute<S>*, const S*, std::int64_t, std::int64_t,             \
                                   std::int64_t, std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(double);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cpu
