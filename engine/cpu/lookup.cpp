#include "engine/cpu/lookup.h"

#include <algorithm>

#include "engine/cpu/row_sums.h"

namespace nqd::engine::cpu {

template <typename S>
void token_lookup(S* out, const std::int32_t* tokens, const S* table, const VocabularyRange& range,
                  std::int64_t rows, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row) {
    S* __restrict y = out + row * width;
    const std::int64_t token = tokens[row];
    if (token < range.begin || token >= range.end) {
      std::fill_n(y, width, S{});
      continue;
    }
    const S* __restrict x = table + (token - range.begin) * width;
    for (std::int64_t i = 0; i < width; ++i) y[i] = narrow<S>(widen(x[i]) + Compute<S>(0));
  }
}

template <typename S>
void token_lookup_backward(Compute<S>* table_gradient, const S* d_out, const std::int32_t* tokens,
                           const VocabularyRange& range, std::int64_t rows, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t token = tokens[row];
    if (token < range.begin || token >= range.end) continue;
    const S* __restrict dy = d_out + row * width;
    Compute<S>* __restrict d = table_gradient + (token - range.begin) * width;
    for (std::int64_t i = 0; i < width; ++i) d[i] += widen(dy[i]);
  }
}

template <typename S>
void add_positions(S* x, const S* positions, std::int64_t first_row, std::int64_t rows,
                   std::int64_t sequence, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row) {
    S* __restrict y = x + row * width;
    const S* __restrict p = positions + (first_row + row) % sequence * width;
    for (std::int64_t i = 0; i < width; ++i) y[i] = narrow<S>(widen(y[i]) + widen(p[i]));
  }
}

template <typename S>
void add_positions_backward(Compute<S>* positions_gradient, const S* d_x, std::int64_t first_row,
                            std::int64_t rows, std::int64_t sequence, std::int64_t width,
                            std::int64_t blocks) {
  using T = Compute<S>;
  const std::int64_t used = std::min(rows, sequence);
  for (std::int64_t start = 0; start < used; ++start) {
    const std::int64_t position = (first_row + start) % sequence;
    add_row_sums<T, 1>(
        {positions_gradient + position * width}, rows, width, blocks, {start, sequence},
        [&](std::int64_t row, std::int64_t first, std::int64_t columns, PartialSums<T, 1>& sums) {
          const S* __restrict in = d_x + row * width + first;
          T* __restrict sum = sums.values[0];
          for (std::int64_t i = 0; i < columns; ++i) sum[i] += widen(in[i]);
        });
  }
}

#define NQD_INSTANTIATE(S)                                                                    \
  template void token_lookup<S>(S*, const std::int32_t*, const S*, const VocabularyRange&,    \
                                std::int64_t, std::int64_t);                                  \
  template void token_lookup_backward<S>(Compute<S>*, const S*, const std::int32_t*,          \
                                         const VocabularyRange&, std::int64_t, std::int64_t); \
  template void add_positions<S>(S*, const S*, std::int64_t, std::int64_t, std::int64_t,      \
                                 std::int64_t);                                               \
  template void add_positions_backward<S>(Compute<S>*, const S*, std::int64_t, std::int64_t,  \
                                          std::int64_t, std::int64_t, std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(double);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cpu
