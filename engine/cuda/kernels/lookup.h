// engine/cpu/lookup.h on a device: the same arguments, after the stream that they run on, and the
// same bits. Pointers are of device memory. S is float, BFloat16 or Float16.
#pragma once

#include <cstdint>

#include "engine/cpu/lookup.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

template <typename S>
void token_lookup(StreamHandle stream, S* out, const std::int32_t* tokens, const S* table,
                  const cpu::VocabularyRange& range, std::int64_t rows, std::int64_t width);

// Numbers of scratch that the next one needs: the rows are sorted by token, so that each gradient
// row is one chain over its token's rows, ascending. At most 2^31 − 1 rows.
std::int64_t token_lookup_backward_scratch(std::int64_t rows);
template <typename S>
void token_lookup_backward(StreamHandle stream, float* table_gradient, const S* d_out,
                           const std::int32_t* tokens, const cpu::VocabularyRange& range,
                           std::int64_t rows, std::int64_t width, std::int32_t* scratch);

template <typename S>
void add_positions(StreamHandle stream, S* x, const S* positions, std::int64_t first_row,
                   std::int64_t rows, std::int64_t sequence, std::int64_t width);
template <typename S>
void add_positions_backward(StreamHandle stream, float* positions_gradient, const S* d_x,
                            std::int64_t first_row, std::int64_t rows, std::int64_t sequence,
                            std::int64_t width, std::int64_t blocks);

}  // namespace nqd::engine::cuda
