#include "engine/cuda/kernels/lookup.h"

#include "engine/cuda/kernels/bodies/lookup.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void token_lookup(StreamHandle stream, S* out, const std::int32_t* tokens, const S* table,
                  const cpu::VocabularyRange& range, std::int64_t rows, std::int64_t width) {
  bodies::token_lookup(Launch(stream), out, tokens, table, range, rows, width);
}

std::int64_t token_lookup_backward_scratch(std::int64_t rows) {
  return bodies::SortScratch::numbers(rows);
}
template <typename S>
void token_lookup_backward(StreamHandle stream, float* table_gradient, const S* d_out,
                           const std::int32_t* tokens, const cpu::VocabularyRange& range,
                           std::int64_t rows, std::int64_t width, std::int32_t* scratch) {
  bodies::token_lookup_backward(Launch(stream), table_gradient, d_out, tokens, range, rows, width,
                                scratch);
}

template <typename S>
void add_positions(StreamHandle stream, S* x, const S* positions, std::int64_t first_row,
                   std::int64_t rows, std::int64_t sequence, std::int64_t width) {
  bodies::add_positions(Launch(stream), x, positions, first_row, rows, sequence, width);
}
template <typename S>
void add_positions_backward(StreamHandle stream, float* positions_gradient, const S* d_x,
                            std::int64_t first_row, std::int64_t rows, std::int64_t sequence,
                            std::int64_t width, std::int64_t blocks) {
  bodies::add_positions_backward(Launch(stream), positions_gradient, d_x, first_row, rows, sequence,
                                 width, blocks);
}

#define NQD_INSTANTIATE(S)                                                                        \
  template void token_lookup<S>(StreamHandle, S*, const std::int32_t*, const S*,                  \
                                const cpu::VocabularyRange&, std::int64_t, std::int64_t);         \
  template void token_lookup_backward<S>(StreamHandle, float*, const S*, const std::int32_t*,     \
                                         const cpu::VocabularyRange&, std::int64_t, std::int64_t, \
                                         std::int32_t*);                                          \
  template void add_positions<S>(StreamHandle, S*, const S*, std::int64_t, std::int64_t,          \
                                 std::int64_t, std::int64_t);                                     \
  template void add_positions_backward<S>(StreamHandle, float*, const S*, std::int64_t,           \
                                          std::int64_t, std::int64_t, std::int64_t, std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda
