#include "engine/cpu/rotary.h"

#include <cmath>

namespace nqd::engine::cpu {
namespace {

template <typename S, typename T>
void rotate(S* x, const T* cosines, const T* sines, const RotaryShape& shape, T direction) {
  const std::int64_t half = shape.head_width / 2;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* __restrict cosine = cosines + row % shape.sequence * half;
    const T* __restrict sine = sines + row % shape.sequence * half;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      S* __restrict low = x + row * shape.stride + head * shape.head_width;
      S* __restrict high = low + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const T a = widen(low[i]);
        const T b = widen(high[i]);
        const T s = direction * sine[i];
        low[i] = narrow<S>(a * cosine[i] - b * s);
        high[i] = narrow<S>(b * cosine[i] + a * s);
      }
    }
  }
}

}  // namespace

template <typename T>
void rotary_table(T* cosines, T* sines, std::int64_t sequence,
                  std::span<const double> frequencies) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  for (std::int64_t i = 0; i < half; ++i) {
    for (std::int64_t position = 0; position < sequence; ++position) {
      const double angle = static_cast<double>(position) * frequencies[static_cast<std::size_t>(i)];
      cosines[position * half + i] = static_cast<T>(std::cos(angle));
      sines[position * half + i] = static_cast<T>(std::sin(angle));
    }
  }
}

template <typename S>
void rotary_forward(S* x, const Compute<S>* cosines, const Compute<S>* sines,
                    const RotaryShape& shape) {
  rotate(x, cosines, sines, shape, Compute<S>(1));
}

template <typename S>
void rotary_backward(S* d, const Compute<S>* cosines, const Compute<S>* sines,
                     const RotaryShape& shape) {
  rotate(d, cosines, sines, shape, Compute<S>(-1));
}

template void rotary_table<float>(float*, float*, std::int64_t, std::span<const double>);
template void rotary_table<double>(double*, double*, std::int64_t, std::span<const double>);

#define NQD_INSTANTIATE(S)                                                                       \
  template void rotary_forward<S>(S*, const Compute<S>*, const Compute<S>*, const RotaryShape&); \
  template void rotary_backward<S>(S*, const Compute<S>*, const Compute<S>*, const RotaryShape&)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(double);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cpu
