// What follows a matrix product, in one pass over its result.
#pragma once

#include <cstdint>

#include "engine/cpu/dropout.h"
#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

// out [rows, width] = residual + dropout(product + bias): in that order, rounded once. bias [width]
// and residual [rows, width] may be null for none, dropout for none; row 0 is row `first_row` of
// the tensor in the whole step. out may be residual, and product where S is Compute<S>.
template <typename S>
void bias_dropout_residual(S* out, const Compute<S>* product, const S* bias, const S* residual,
                           std::int64_t rows, std::int64_t width, const Dropout* dropout,
                           std::int64_t first_row);

}  // namespace nqd::engine::cpu
