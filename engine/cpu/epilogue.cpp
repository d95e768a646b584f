#include "engine/cpu/epilogue.h"

#include <algorithm>

namespace nqd::engine::cpu {
namespace {

// Through a buffer on the stack, so that the loops vectorise although `out` may be an input.
constexpr std::int64_t kChunk = 256;

template <typename S, typename T>
void finish_chunk(S* out, const T* product, const S* bias, const S* residual, const T* factors,
                  std::int64_t count) {
  T values[kChunk];
  if (bias != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = product[i] + widen(bias[i]);
  } else {
    std::copy_n(product, count, values);
  }
  if (factors != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= factors[i];
  }
  if (residual != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = widen(residual[i]) + values[i];
  }
  for (std::int64_t i = 0; i < count; ++i) out[i] = narrow<S>(values[i]);
}

}  // namespace

template <typename S>
void bias_dropout_residual(S* out, const Compute<S>* product, const S* bias, const S* residual,
                           std::int64_t rows, std::int64_t width, const Dropout* dropout,
                           std::int64_t first_row) {
  Compute<S> factors[kChunk];
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t first = 0; first < width; first += kChunk) {
      const std::int64_t count = std::min(kChunk, width - first);
      const std::int64_t at = row * width + first;
      if (dropout != nullptr) {
        dropout_factors(factors, *dropout, (first_row + row) * width + first, count);
      }
      finish_chunk(out + at, product + at, bias == nullptr ? nullptr : bias + first,
                   residual == nullptr ? nullptr : residual + at,
                   dropout == nullptr ? nullptr : factors, count);
    }
  }
}

template void bias_dropout_residual<float>(float*, const float*, const float*, const float*,
                                           std::int64_t, std::int64_t, const Dropout*,
                                           std::int64_t);
template void bias_dropout_residual<double>(double*, const double*, const double*, const double*,
                                            std::int64_t, std::int64_t, const Dropout*,
                                            std::int64_t);
template void bias_dropout_residual<BFloat16>(BFloat16*, const float*, const BFloat16*,
                                              const BFloat16*, std::int64_t, std::int64_t,
                                              const Dropout*, std::int64_t);
template void bias_dropout_residual<Float16>(Float16*, const float*, const Float16*, const Float16*,
                                             std::int64_t, std::int64_t, const Dropout*,
                                             std::int64_t);

}  // namespace nqd::engine::cpu
