// Rotary position embedding (Su et al. 2021), in the form of Llama's published weights: column i of
// a head turns with column i + head_width / 2, by position · frequency i.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

// cosines and sines [sequence, head_width / 2] of all positions, computed in double; frequencies
// [head_width / 2] in radians a position.
template <typename T>
void rotary_table(T* cosines, T* sines, std::int64_t sequence, std::span<const double> frequencies);

// Heads are adjacent: head j of a row is columns [j · head_width, (j + 1) · head_width), rows are
// `stride` elements apart, row r is position r mod sequence. On rows [q | k | v] one call with
// heads + kv_heads heads turns q and k.
struct RotaryShape {
  std::int64_t rows = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t head_width = 0;  // even
  std::int64_t stride = 0;
};

// In place.
template <typename S>
void rotary_forward(S* x, const Compute<S>* cosines, const Compute<S>* sines,
                    const RotaryShape& shape);

// The gradient of the rotated values becomes that of the values: the inverse rotation.
template <typename S>
void rotary_backward(S* d, const Compute<S>* cosines, const Compute<S>* sines,
                     const RotaryShape& shape);

}  // namespace nqd::engine::cpu
