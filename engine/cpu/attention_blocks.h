// The pieces that attention's two passes share: blocks of a sequence, products of small tiles held
// in cache, and the exponentials of a block of scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/cpu/blocked_attention.h"
#include "engine/cpu/math.h"
#include "engine/gemm/fixed/kernels.h"

namespace nqd::engine::cpu::blocks {

// Queries and keys of a block: multiples of the tiles' sides.
inline constexpr std::int64_t kQueries = 48;
inline constexpr std::int64_t kKeys = 192;
// Columns of every buffer are padded to this: at least the lanes of any vector.
inline constexpr std::int64_t kPadding = 16;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
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

// A product that is cut into tiles: out = start + a · b, by the element, start being out itself or
// zeros.
template <typename T>
struct TileProduct {
  const T* a;  // a(i, k) = a[i · a_row + k · a_k]
  std::int64_t a_row;
  std::int64_t a_k;
  const T* b;  // rows of `b_k` elements
  std::int64_t b_k;
  T* out;
  std::int64_t out_row;
  bool add;
};

// The tiles of the fixed-order product (engine/gemm/fixed) on this CPU.
template <typename T>
class Tiles {
 public:
  std::int64_t rows() const { return kernels_.rows; }
  std::int64_t lanes() const { return kernels_.lanes; }
  std::int64_t vectors() const { return kernels_.vectors; }

  // The tile of `tile_rows` rows from `row` and `tile_vectors` vectors from `column`, over k in
  // [first, end).
  void run(const TileProduct<T>& p, std::int64_t row, std::int64_t tile_rows, std::int64_t column,
           std::int64_t tile_vectors, std::int64_t first, std::int64_t end) const {
    T* const out = p.out + row * p.out_row + column;
    kernels_.tile(false, static_cast<int>(tile_rows),
                  static_cast<int>(tile_vectors))({.a = p.a + row * p.a_row + first * p.a_k,
                                                   .a_row = p.a_row,
                                                   .a_k = p.a_k,
                                                   .b = p.b + first * p.b_k + column,
                                                   .b_k = p.b_k,
                                                   .k = end - first,
                                                   .start = p.add ? out : nullptr,
                                                   .start_stride = p.out_row,
                                                   .addends = nullptr,
                                                   .addend_count = 0,
                                                   .out = out,
                                                   .out_stride = p.out_row});
  }

 private:
  const fixed::KernelSet& kernels_ = fixed::best_kernels();
};

// The same chains in double, which has no kernels of its own.
template <>
class Tiles<double> {
 public:
  std::int64_t rows() const { return 6; }
  std::int64_t lanes() const { return 8; }
  std::int64_t vectors() const { return 2; }

  void run(const TileProduct<double>& p, std::int64_t row, std::int64_t tile_rows,
           std::int64_t column, std::int64_t tile_vectors, std::int64_t first,
           std::int64_t end) const {
    for (std::int64_t i = row; i < row + tile_rows; ++i) {
      for (std::int64_t j = column; j < column + tile_vectors * lanes(); ++j) {
        double sum = p.add ? p.out[i * p.out_row + j] : 0;
        for (std::int64_t k = first; k < end; ++k) {
          sum = std::fma(p.a[i * p.a_row + k * p.a_k], p.b[k * p.b_k + j], sum);
        }
        p.out[i * p.out_row + j] = sum;
      }
    }
  }
};

// scores [kQueries, kKeys] = a [queries, width] · keys [width, keys], `keys_row` elements from row
// to row. Keys that no query of a tile sees are skipped.
template <typename T>
void multiply_queries_by_keys(const Tiles<T>& tiles, T* scores, const T* a, const T* keys,
                              std::int64_t keys_row, std::int64_t width, std::int64_t queries,
                              const Visible& seen) {
  const TileProduct<T> product{a, width, 1, keys, keys_row, scores, kKeys, false};
  const std::int64_t tile_columns = tiles.vectors() * tiles.lanes();
  for (std::int64_t key = 0; key < seen.count(queries - 1); key += tile_columns) {
    for (std::int64_t query = 0; query < queries; query += tiles.rows()) {
      const std::int64_t rows = std::min(tiles.rows(), queries - query);
      const std::int64_t needed = std::min(seen.count(query + rows - 1) - key, tile_columns);
      if (needed <= 0) continue;
      tiles.run(product, query, rows, key, (needed + tiles.lanes() - 1) / tiles.lanes(), 0, width);
    }
  }
}

// out [queries, width] = or += weights [kQueries, kKeys] · b [keys, width].
template <typename T>
void multiply_weights_by_keys(const Tiles<T>& tiles, T* out, const T* weights, const T* b,
                              std::int64_t width, std::int64_t queries, const Visible& seen,
                              bool add) {
  const TileProduct<T> product{weights, kKeys, 1, b, width, out, width, add};
  const std::int64_t tile_columns = tiles.vectors() * tiles.lanes();
  for (std::int64_t column = 0; column < width; column += tile_columns) {
    const std::int64_t vectors = std::min(tile_columns, width - column) / tiles.lanes();
    for (std::int64_t query = 0; query < queries; query += tiles.rows()) {
      const std::int64_t rows = std::min(tiles.rows(), queries - query);
      const std::int64_t keys = seen.count(query + rows - 1);
      if (keys > 0) tiles.run(product, query, rows, column, vectors, 0, keys);
    }
  }
}

// out [keys, width] += weights [kQueries, kKeys]ᵀ · b [queries, width].
template <typename T>
void add_weights_by_queries(const Tiles<T>& tiles, T* out, const T* weights, const T* b,
                            std::int64_t width, std::int64_t queries, const Visible& seen) {
  const TileProduct<T> product{weights, 1, kKeys, b, width, out, width, true};
  const std::int64_t keys = seen.count(queries - 1);
  const std::int64_t tile_columns = tiles.vectors() * tiles.lanes();
  for (std::int64_t column = 0; column < width; column += tile_columns) {
    const std::int64_t vectors = std::min(tile_columns, width - column) / tiles.lanes();
    for (std::int64_t key = 0; key < keys; key += tiles.rows()) {
      const std::int64_t rows = std::min(tiles.rows(), keys - key);
      tiles.run(product, key, rows, column, vectors, seen.first_query(key), queries);
    }
  }
}

// Rows of one head lie a whole row of all heads apart, which no hardware prefetcher follows: what
// walks over them asks for the lines of a row this many ahead.
inline constexpr std::int64_t kRowsAhead = 16;

template <bool kWrite, typename S>
void prefetch_row(const S* row, std::int64_t width) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(S));
  for (std::int64_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, kWrite ? 1 : 0);
}

// to [count, padded_width] = from [count, width] · scale, zeros beside it.
template <typename S, typename T>
void copy_rows(T* to, const S* from, std::int64_t stride, std::int64_t count, std::int64_t width,
               std::int64_t padded_width, T scale) {
  for (std::int64_t row = 0; row < count; ++row) {
    const S* __restrict x = from + row * stride;
    T* __restrict y = to + row * padded_width;
    prefetch_row<false>(x + kRowsAhead * stride, width);
    for (std::int64_t i = 0; i < width; ++i) y[i] = widen(x[i]) * scale;
    std::fill(y + width, y + padded_width, T(0));
  }
}

inline constexpr DType type_of(float) { return DType::kFloat32; }
inline constexpr DType type_of(BFloat16) { return DType::kBFloat16; }
inline constexpr DType type_of(Float16) { return DType::kFloat16; }

// out[c · columns + row] = in[row · stride + c] for c in [0, width); zeros for rows from `count`
// on.
template <typename S>
void transpose(Compute<S>* out, const S* in, std::int64_t stride, std::int64_t count,
               std::int64_t width, std::int64_t columns) {
  if constexpr (std::is_same_v<S, double>) {
    for (std::int64_t c = 0; c < width; ++c) {
      for (std::int64_t row = 0; row < columns; ++row) {
        out[c * columns + row] = row < count ? in[row * stride + c] : 0;
      }
    }
  } else {
    fixed::best_kernels().pack({.in = in,
                                .type = type_of(S{}),
                                .stride = stride,
                                .k_is_contiguous = true,
                                .k = width,
                                .count = count,
                                .width = columns,
                                .alpha = 1,
                                .out = out});
  }
}

// Columns of the block of keys that starts at `first`, once transposed.
inline std::int64_t block_columns(const AttentionLayout& layout, std::int64_t first) {
  return std::min(kKeys, round_up(layout.sequence - first, kPadding));
}

// The keys (or values) of one head, transposed block by block: block `first` is [width, its
// columns], at first · width.
template <typename S>
void transpose_blocks(Compute<S>* to, const S* from, const AttentionLayout& layout,
                      std::int64_t width) {
  for (std::int64_t first = 0; first < layout.sequence; first += kKeys) {
    const std::int64_t columns = block_columns(layout, first);
    const std::int64_t count = std::min(kKeys, layout.sequence - first);
    const S* const in = from + first * layout.kv_stride;
    Compute<S>* const block = to + first * width;
    for (std::int64_t row = 0; row < count; ++row) {
      prefetch_row<false>(in + row * layout.kv_stride, layout.head_width);
    }
    transpose(block, in, layout.kv_stride, count, layout.head_width, columns);
    std::fill(block + layout.head_width * columns, block + width * columns, Compute<S>(0));
  }
}

// to [rows, width] = from · scale.
template <typename S, typename T>
void write_rows(S* to, std::int64_t stride, const T* from, std::int64_t from_stride,
                std::int64_t rows, std::int64_t width, T scale) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* __restrict x = from + row * from_stride;
    S* __restrict y = to + row * stride;
    prefetch_row<true>(y + kRowsAhead * stride, width);
    for (std::int64_t i = 0; i < width; ++i) y[i] = narrow<S>(x[i] * scale);
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

// The maximum of row[0] … row[count - 1], count >= 1; scores beyond, up to the end of their vector,
// exist and are passed over.
template <typename T>
T maximum_of(const T* row, std::int64_t count) {
  std::array<T, kLanes> lanes;
  lanes.fill(row[0]);
  for (std::int64_t j = 0; j < count; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const T value = lane < count - j ? row[j + lane] : row[0];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  return merge_lanes(lanes, [](T a, T b) { return a > b ? a : b; });
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
  std::fill(row + j, row + std::min(j + kPadding, kKeys), T(0));
  return merge_lanes(lanes, [](T a, T b) { return a + b; });
}

}  // namespace nqd::engine::cpu::blocks
