#include "engine/cpu/activations.h"

#include <algorithm>

#include "engine/cpu/gelu.h"
#include "engine/cpu/math.h"

namespace nqd::engine::cpu {
namespace {

// Elements that pass through a buffer on the stack: a loop then vectorises although what it reads
// may be what it writes.
constexpr std::int64_t kChunk = 256;

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + fast_exp(-x));
}

template <typename T>
T gelu_slope(T x) {
  const T s = gelu_sigmoid(x);
  const T inner = static_cast<T>(kGeluTwiceScale) * (T(1) + static_cast<T>(3 * kGeluCubic) * x * x);
  return s + x * s * (T(1) - s) * inner;
}

}  // namespace

template <typename S>
void gelu(S* y_all, const S* x_all, std::int64_t n) {
  using T = Compute<S>;
  S* __restrict y = y_all;
  const S* __restrict x = x_all;
  for (std::int64_t i = 0; i < n; ++i) {
    const T value = widen(x[i]);
    y[i] = narrow<S>(value * gelu_sigmoid(value));
  }
}

template <typename S>
void gelu_backward(S* dx, const S* dy, const S* x, std::int64_t n) {
  using T = Compute<S>;
  for (std::int64_t first = 0; first < n; first += kChunk) {
    const std::int64_t count = std::min(kChunk, n - first);
    T values[kChunk];
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] = widen(dy[first + i]) * gelu_slope(widen(x[first + i]));
    }
    for (std::int64_t i = 0; i < count; ++i) dx[first + i] = narrow<S>(values[i]);
  }
}

template <typename S>
void swiglu(S* y_rows, const S* x_rows, std::int64_t rows, std::int64_t width) {
  using T = Compute<S>;
  for (std::int64_t row = 0; row < rows; ++row) {
    const S* __restrict gate = x_rows + row * 2 * width;
    const S* __restrict up = gate + width;
    S* __restrict y = y_rows + row * width;
    for (std::int64_t i = 0; i < width; ++i) {
      const T g = widen(gate[i]);
      y[i] = narrow<S>(g * sigmoid(g) * widen(up[i]));
    }
  }
}

template <typename S>
void swiglu_backward(S* dx, const S* dy, const S* x, std::int64_t rows, std::int64_t width) {
  using T = Compute<S>;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t first = 0; first < width; first += kChunk) {
      const std::int64_t count = std::min(kChunk, width - first);
      const std::int64_t at = row * 2 * width + first;
      const S* gate = x + at;
      const S* up = gate + width;
      const S* d = dy + row * width + first;
      T d_gate[kChunk];
      T d_up[kChunk];
      for (std::int64_t i = 0; i < count; ++i) {
        const T g = widen(gate[i]);
        const T s = sigmoid(g);
        d_gate[i] = widen(d[i]) * widen(up[i]) * (s + g * s * (T(1) - s));
        d_up[i] = widen(d[i]) * (g * s);
      }
      for (std::int64_t i = 0; i < count; ++i) dx[at + i] = narrow<S>(d_gate[i]);
      for (std::int64_t i = 0; i < count; ++i) dx[at + width + i] = narrow<S>(d_up[i]);
    }
  }
}

#define NQD_INSTANTIATE(S)                                              \
  template void gelu<S>(S*, const S*, std::int64_t);                    \
  template void gelu_backward<S>(S*, const S*, const S*, std::int64_t); \
  template void swiglu<S>(S*, const S*, std::int64_t, std::int64_t);    \
  template void swiglu_backward<S>(S*, const S*, const S*, std::int64_t, std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(double);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cpu
