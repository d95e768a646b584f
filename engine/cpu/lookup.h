// Embedding tables: token rows of a vocabulary range, and positions.
#pragma once

#include <cstdint>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

// Tokens [begin, end) of the vocabulary; row t − begin of a rank's table is token t.
struct VocabularyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// out[row] = table[tokens[row] − begin] + 0, and 0 for a token outside the range: the ranks'
// results sum to the same bits however the vocabulary is split (a −0 becomes +0 in both).
template <typename S>
void token_lookup(S* out, const std::int32_t* tokens, const S* table, const VocabularyRange& range,
                  std::int64_t rows, std::int64_t width);

// Adds d_out[row] to the gradient of its token's row, in ascending order of rows.
template <typename S>
void token_lookup_backward(Compute<S>* table_gradient, const S* d_out, const std::int32_t* tokens,
                           const VocabularyRange& range, std::int64_t rows, std::int64_t width);

// x[row] += positions[(first_row + row) mod sequence]: row 0 is row `first_row` of the micro-batch.
template <typename S>
void add_positions(S* x, const S* positions, std::int64_t first_row, std::int64_t rows,
                   std::int64_t sequence, std::int64_t width);

// Adds, for each position, the sum of d_x over the rows that are at it, in `blocks` blocks of rows
// as engine/cpu/row_sums.h says; first_row as above.
template <typename S>
void add_positions_backward(Compute<S>* positions_gradient, const S* d_x, std::int64_t first_row,
                            std::int64_t rows, std::int64_t sequence, std::int64_t width,
                            std::int64_t blocks);

}  // namespace nqd::engine::cpu
