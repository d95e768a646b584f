// Token plus position embedding.
#pragma once

#include <cstdint>

namespace nqd::engine::cpu {

// out[b·sequence + i] = token_table[tokens[b·sequence + i]] + position_table[i].
// out [batch·sequence, width]; tokens in range of the table.
template <typename T>
void embedding_forward(T* out, const std::int32_t* tokens, const T* token_table,
                       const T* position_table, std::int64_t batch, std::int64_t sequence,
                       std::int64_t width) {
  for (std::int64_t row = 0; row < batch * sequence; ++row) {
    const T* __restrict token = token_table + tokens[row] * width;
    const T* __restrict position = position_table + row % sequence * width;
    T* __restrict y = out + row * width;
    for (std::int64_t i = 0; i < width; ++i) y[i] = token[i] + position[i];
  }
}

// Adds the rows of d_out into the rows of both tables that they came from, in ascending order.
template <typename T>
void embedding_backward(T* d_token_table, T* d_position_table, const T* d_out,
                        const std::int32_t* tokens, std::int64_t batch, std::int64_t sequence,
                        std::int64_t width) {
  for (std::int64_t row = 0; row < batch * sequence; ++row) {
    const T* __restrict dy = d_out + row * width;
    T* __restrict d_token = d_token_table + tokens[row] * width;
    T* __restrict d_position = d_position_table + row % sequence * width;
    for (std::int64_t i = 0; i < width; ++i) {
      d_token[i] += dy[i];
      d_position[i] += dy[i];
    }
  }
}

extern template void embedding_forward<float>(float*, const std::int32_t*, const float*,
                                              const float*, std::int64_t, std::int64_t,
                                              std::int64_t);
extern template void embedding_backward<float>(float*, float*, const float*, const std::int32_t*,
                                               std::int64_t, std::int64_t, std::int64_t);

}  // namespace nqd::engine::cpu
