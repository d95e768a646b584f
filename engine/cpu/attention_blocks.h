// The pieces that attention's two passes share: blocks of a sequence, products of small tiles held
// in cache, and the exponentials of a block of scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/cpu/blocked_attention.h"
#include "engine/cpu/math.h"

namespace nqd::engine::cpu::blocks {

inline constexpr std::int64_t kVectorBytes = __BIGGEST_ALIGNMENT__ >= 64   ? 64
                                             : __BIGGEST_ALIGNMENT__ >= 32 ? 32
                                                                           : 16;
// A tile of accumulators: as many rows as the vector registers hold beside a row of B. 32 registers
// come with vectors of 64 bytes. It decides no bit of a result.
inline constexpr std::int64_t kTileRows = kVectorBytes == 64 ? 12 : kVectorBytes == 32 ? 6 : 3;
inline constexpr std::int64_t kPanel = 16;  // columns of a tile

// Queries and keys of a block: multiples of the tile's rows and columns.
inline constexpr std::int64_t kQueries = 48;
inline constexpr std::int64_t kKeys = 192;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

template <typename T>
struct Vector {
  static constexpr std::int64_t kCount = kVectorBytes / static_cast<std::int64_t>(sizeof(T));
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};

template <typename T>
inline typename Vector<T>::Type multiply_add(T a, typename Vector<T>::Type b,
                                             typename Vector<T>::Type c) {
  typename Vector<T>::Type result;
  for (std::int64_t i = 0; i < Vector<T>::kCount; ++i) result[i] = std::fma(a, b[i], c[i]);
  return result;
}

// A matrix read element by element: a(i, k) = data[i · row + k · column].
template <typename T>
struct Strided {
  const T* data;
  std::int64_t row;
  std::int64_t column;
};

// c[kTileRows × kPanel] = a · b, or += where `add`; b's row k at b + k · b_stride.
template <typename T>
void multiply_tile(T* c, std::int64_t c_stride, const Strided<T>& a, const T* b,
                   std::int64_t b_stride, std::int64_t k, bool add) {
  using V = typename Vector<T>::Type;
  constexpr std::int64_t kCount = Vector<T>::kCount;
  constexpr std::int64_t kVectors = kPanel / kCount;
  V sums[kTileRows][kVectors] = {};
  if (add) {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 16
      for (std::int64_t j = 0; j < kVectors; ++j) {
        std::memcpy(&sums[i][j], c + i * c_stride + j * kCount, sizeof(V));
      }
    }
  }
  const T* __restrict at = a.data;
  for (std::int64_t l = 0; l < k; ++l, at += a.column, b += b_stride) {
    V row[kVectors];
#pragma GCC unroll 16
    for (std::int64_t j = 0; j < kVectors; ++j) std::memcpy(&row[j], b + j * kCount, sizeof(V));
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kTileRows; ++i) {
      const T factor = at[i * a.row];
#pragma GCC unroll 16
      for (std::int64_t j = 0; j < kVectors; ++j) {
        sums[i][j] = multiply_add<T>(factor, row[j], sums[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 16
    for (std::int64_t j = 0; j < kVectors; ++j) {
      std::memcpy(c + i * c_stride + j * kCount, &sums[i][j], sizeof(V));
    }
  }
}

// Which keys of a block the queries of a block see: query i the keys [0, count(i)).
struct Visible {
  std::int64_t keys;      // of the block that exist
  std::int64_t diagonal;  // causal: query i sees diagonal + i + 1 of them at most; else keys

  std::int64_t count(std::int64_t query) const {
    return std::clamp(diagonal + query + 1, std::int64_t{0}, keys);
  }
  // The first query that sees key j.
  std::int64_t first_query(std::int64_t key) const {
    return std::max(key - diagonal, std::int64_t{0});
  }
};

inline Visible visible(const AttentionLayout& layout, std::int64_t first_query,
                       std::int64_t first_key) {
  const std::int64_t keys = std::min(kKeys, layout.sequence - first_key);
  return {keys, layout.causal ? first_query - first_key : keys};
}

// scores [kQueries, kKeys] = a [kQueries, width] · panels, where panel p holds keys [16p, 16p + 16)
// as `width` rows of 16. Keys that no query of a tile sees are skipped.
template <typename T>
void multiply_queries_by_keys(T* scores, const Strided<T>& a, const T* panels, std::int64_t width,
                              std::int64_t queries, const Visible& seen) {
  for (std::int64_t key = 0; key < seen.count(queries - 1); key += kPanel) {
    for (std::int64_t query = 0; query < queries; query += kTileRows) {
      if (key >= seen.count(query + kTileRows - 1)) continue;
      multiply_tile(scores + query * kKeys + key, kKeys, {a.data + query * a.row, a.row, a.column},
                    panels + key * width, kPanel, width, false);
    }
  }
}

// out [kQueries, width] = or += weights [kQueries, kKeys] · b [keys, width].
template <typename T>
void multiply_weights_by_keys(T* out, const T* weights, const T* b, std::int64_t width,
                              std::int64_t queries, const Visible& seen, bool add) {
  for (std::int64_t column = 0; column < width; column += kPanel) {
    for (std::int64_t query = 0; query < queries; query += kTileRows) {
      const std::int64_t keys = seen.count(query + kTileRows - 1);
      if (keys == 0) continue;
      multiply_tile(out + query * width + column, width, {weights + query * kKeys, kKeys, 1},
                    b + column, width, keys, add);
    }
  }
}

// out [keys, width] += weights [kQueries, kKeys]ᵀ · b [queries, width].
template <typename T>
void add_weights_by_queries(T* out, const T* weights, const T* b, std::int64_t width,
                            std::int64_t queries, const Visible& seen) {
  const std::int64_t keys = seen.count(queries - 1);
  for (std::int64_t column = 0; column < width; column += kPanel) {
    for (std::int64_t key = 0; key < keys; key += kTileRows) {
      const std::int64_t first = seen.first_query(key);
      multiply_tile(out + key * width + column, width, {weights + first * kKeys + key, 1, kKeys},
                    b + first * width + column, width, queries - first, true);
    }
  }
}

// to [padded, padded_width] = from [count, width] · scale, zeros around it.
template <typename S, typename T>
void copy_rows(T* to, const S* from, std::int64_t stride, std::int64_t count, std::int64_t width,
               std::int64_t padded, std::int64_t padded_width, T scale) {
  for (std::int64_t row = 0; row < count; ++row) {
    const S* __restrict x = from + row * stride;
    T* __restrict y = to + row * padded_width;
    for (std::int64_t i = 0; i < width; ++i) y[i] = widen(x[i]) * scale;
    std::fill(y + width, y + padded_width, T(0));
  }
  std::fill(to + count * padded_width, to + padded * padded_width, T(0));
}

// The panels of multiply_queries_by_keys from rows [count, width]; zeros up to padded_width columns
// and `padded` rows.
template <typename S, typename T>
void transpose_to_panels(T* to, const S* from, std::int64_t stride, std::int64_t count,
                         std::int64_t width, std::int64_t padded_width, std::int64_t padded) {
  for (std::int64_t first = 0; first < padded; first += kPanel) {
    T* panel = to + first * padded_width;
    const std::int64_t rows = std::clamp(count - first, std::int64_t{0}, kPanel);
    if (rows < kPanel || width < padded_width) std::fill_n(panel, kPanel * padded_width, T(0));
    for (std::int64_t row = 0; row < rows; ++row) {
      const S* __restrict x = from + (first + row) * stride;
      T* __restrict y = panel + row;
      for (std::int64_t i = 0; i < width; ++i) y[i * kPanel] = widen(x[i]);
    }
  }
}

inline std::int64_t first_dropout_element(const AttentionLayout& layout,
                                          const AttentionDropout* dropout, std::int64_t batch,
                                          std::int64_t head, std::int64_t query) {
  if (dropout == nullptr) return 0;
  const std::int64_t model_head =
      (dropout->first_sequence + batch) * dropout->model_heads + dropout->first_head + head;
  return (model_head * layout.sequence + query) * layout.sequence;
}

// row[j] = e^(row[j] − shift) for j in [0, count), 0 from there on as far as a tile or a panel may
// read. Returns the sum, in the order of lane_sum.
template <typename T>
T exponentials(T* row, std::int64_t count, T shift) {
  std::array<T, kLanes> lanes{};
  std::int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      row[j + lane] = fast_exp(row[j + lane] - shift);
      lanes[lane] += row[j + lane];
    }
  }
  if (j < count) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const T value = fast_exp(row[j + lane] - shift);
      row[j + lane] = lane < count - j ? value : T(0);
      lanes[lane] += row[j + lane];
    }
    j += kLanes;
  }
  std::fill(row + j, row + std::min(j + kTileRows, kKeys), T(0));
  return merge_lanes(lanes, [](T a, T b) { return a + b; });
}

}  // namespace nqd::engine::cpu::blocks
