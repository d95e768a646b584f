// Dropout by counter-based random numbers. Whether an element is kept is a function of the seed,
// the step, the place in the model and the element's index in the whole step, so that masks are
// equal on any mesh and when activations are computed again.
#pragma once

#include <cstdint>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

enum class DropoutSite : std::uint8_t { kEmbedding, kAttention, kAttentionOutput, kMlpOutput };

// What selects the stream of masks of one tensor in one step. `rate` in [0, 1): the share of
// elements that become 0; the others are multiplied by 1 / (1 − rate).
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t layer = 0;
  DropoutSite site = DropoutSite::kEmbedding;
  // Where the low half of the step is read when masks are drawn, in the memory of whoever draws
  // them; null: it is `step`.
  const std::uint32_t* step_at = nullptr;
};

// out[i] = the factor (0 or 1 / (1 − rate)) of element first + i of the tensor. Element e draws
// word (e / 16) mod 4 of Philox block (e / 64) · 16 + e mod 16, counter (block low, block high,
// step, layer · 256 + site), key (seed low, seed high XOR 0x64726F70); it is kept where the word is
// at least rate · 2^32.
template <typename T>
void dropout_factors(T* out, const Dropout& dropout, std::int64_t first, std::int64_t n);

// y[i] = x[i] · factor of element first + i. Forward and backward alike; y may be x.
template <typename S>
void apply_dropout(S* y, const S* x, const Dropout& dropout, std::int64_t first, std::int64_t n);

}  // namespace nqd::engine::cpu
