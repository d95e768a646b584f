#include "engine/cpu/convert.h"

#include <algorithm>

namespace nqd::engine::cpu {
namespace {

template <typename S>
bool is_non_finite(S value) {
  // Infinities and NaN alone are not 0 times themselves.
  return !(widen(value) * Compute<S>(0) == Compute<S>(0));
}

}  // namespace

template <typename S>
void narrow_all(S* to, const float* from, std::int64_t n) {
  S* __restrict y = to;
  const float* __restrict x = from;
  for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<S>(x[i]);
}

template <typename S>
void widen_all(float* to, const S* from, std::int64_t n) {
  float* __restrict y = to;
  const S* __restrict x = from;
  for (std::int64_t i = 0; i < n; ++i) y[i] = widen(x[i]);
}

template <typename S>
void add_all(Compute<S>* to, const S* from, std::int64_t n) {
  Compute<S>* __restrict y = to;
  const S* __restrict x = from;
  for (std::int64_t i = 0; i < n; ++i) y[i] += widen(x[i]);
}

template <typename T>
void scale_all(T* x, T factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <typename S>
std::int64_t first_non_finite(const S* x, std::int64_t n) {
  constexpr std::int64_t kChunk = 1024;
  for (std::int64_t first = 0; first < n; first += kChunk) {
    const std::int64_t end = std::min(first + kChunk, n);
    std::uint32_t found = 0;
    for (std::int64_t i = first; i < end; ++i) found |= is_non_finite(x[i]) ? 1U : 0U;
    for (std::int64_t i = first; found != 0 && i < end; ++i) {
      if (is_non_finite(x[i])) return i;
    }
  }
  return -1;
}

template void narrow_all<BFloat16>(BFloat16*, const float*, std::int64_t);
template void narrow_all<Float16>(Float16*, const float*, std::int64_t);
template void widen_all<BFloat16>(float*, const BFloat16*, std::int64_t);
template void widen_all<Float16>(float*, const Float16*, std::int64_t);
template void scale_all<float>(float*, float, std::int64_t);
template void scale_all<double>(double*, double, std::int64_t);

#define NQD_INSTANTIATE(S)                                       \
  template void add_all<S>(Compute<S>*, const S*, std::int64_t); \
  template std::int64_t first_non_finite<S>(const S*, std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(double);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cpu
