// engine/cpu/lookup.h on the device: the same bits.
#pragma once

#include <algorithm>

#include "engine/cuda/kernels/bodies/token_order.h"

namespace nqd::engine::cuda::bodies {

template <typename S>
struct TokenLookup {
  static constexpr const char* kName = "token_lookup";
  static constexpr int kWidth = kPackWidth<S>;
  S* out;
  const std::int32_t* tokens;
  const S* table;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place place = place_of(i, width);
    const std::int64_t token = tokens[place.row];
    Pack<S, kCount> pack = {};
    if (token >= begin && token < end) {
      pack = load<kCount>(table + (token - begin) * width + place.column);
      // −0 becomes +0, as in rows of other ranks.
      for (S& value : pack.values) {
        value = Block::template narrow<S>(Block::widen(value) + 0.0F);
      }
    }
    store(out + i, pack);
  }
};

// One block a place of the sorted list: that of a token's first row adds all of the token's rows.
template <typename S, int kWidth>
struct AddTokenRows {
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "token_lookup_backward";
  float* table_gradient;
  const S* d_out;
  KeyedRows sorted;
  std::int64_t rows;
  std::int64_t tokens;  // of the range: the key of those outside
  std::int64_t width;

  std::int64_t blocks() const { return rows; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const std::int64_t first = block.index();
    const std::int32_t key = sorted.keys[first];
    if (key == tokens || (first > 0 && sorted.keys[first - 1] == key)) return;
    std::int64_t end = first + 1;
    while (end < rows && sorted.keys[end] == key) ++end;
    block.last([&](int thread) {
      for (std::int64_t i = thread * kWidth; i < width; i += kThreads * kWidth) {
        Pack<float, kWidth> sum = load<kWidth>(table_gradient + key * width + i);
        for (std::int64_t j = first; j < end; ++j) {
          const Pack<S, kWidth> d = load<kWidth>(d_out + sorted.rows[j] * width + i);
          for (int k = 0; k < kWidth; ++k) sum.values[k] += Block::widen(d.values[k]);
        }
        store(table_gradient + key * width + i, sum);
      }
    });
  }
};

template <typename S>
struct AddPositions {
  static constexpr const char* kName = "add_positions";
  static constexpr int kWidth = kPackWidth<S>;
  S* x;
  const S* positions;
  std::int64_t first_row;
  std::int64_t sequence;
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place place = place_of(i, width);
    const std::int64_t position = place_of(first_row + place.row, sequence).column;
    const Pack<S, kCount> p = load<kCount>(positions + position * width + place.column);
    Pack<S, kCount> sum = load<kCount>(x + i);
    for (int k = 0; k < kCount; ++k) {
      sum.values[k] =
          Block::template narrow<S>(Block::widen(sum.values[k]) + Block::widen(p.values[k]));
    }
    store(x + i, sum);
  }
};

// Element i is (start, column): the gradient of the position of row `start` adds rows start,
// start + sequence, …, a chain in each canonical block.
template <typename S>
struct AddPositionRows {
  static constexpr const char* kName = "add_positions_backward";
  static constexpr int kWidth = 1;
  float* positions_gradient;
  const S* d_x;
  std::int64_t first_row;
  std::int64_t rows_of_block;
  std::int64_t blocks;
  std::int64_t sequence;
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Place place = place_of(i, width);
    std::int64_t row = place.row;
    TreeSum<float> total;
    for (std::int64_t b = 1; b <= blocks; ++b) {
      float sum = 0;
      for (; row < b * rows_of_block; row += sequence) {
        sum += Block::widen(d_x[row * width + place.column]);
      }
      total.add(sum);
    }
    const std::int64_t position = place_of(first_row + place.row, sequence).column;
    positions_gradient[position * width + place.column] += total.total();
  }
};

template <typename S, typename Run>
void token_lookup(const Run& run, S* out, const std::int32_t* tokens, const S* table,
                  const cpu::VocabularyRange& range, std::int64_t rows, std::int64_t width) {
  const bool packed = are_aligned(out, table) && width % kPackWidth<S> == 0;
  run_elements(run, TokenLookup<S>{out, tokens, table, range.begin, range.end, width}, rows * width,
               packed);
}

template <typename S, typename Run>
void token_lookup_backward(const Run& run, float* table_gradient, const S* d_out,
                           const std::int32_t* tokens, const cpu::VocabularyRange& range,
                           std::int64_t rows, std::int64_t width, std::int32_t* scratch) {
  const KeyedRows sorted = order_tokens(run, tokens, range, rows, SortScratch(scratch, rows));
  const std::int64_t count = range.end - range.begin;
  if (are_aligned(table_gradient, d_out) && width % kPackWidth<S> == 0) {
    run(AddTokenRows<S, kPackWidth<S>>{table_gradient, d_out, sorted, rows, count, width});
  } else {
    run(AddTokenRows<S, 1>{table_gradient, d_out, sorted, rows, count, width});
  }
}

template <typename S, typename Run>
void add_positions(const Run& run, S* x, const S* positions, std::int64_t first_row,
                   std::int64_t rows, std::int64_t sequence, std::int64_t width) {
  const bool packed = are_aligned(x, positions) && width % kPackWidth<S> == 0;
  run_elements(run, AddPositions<S>{x, positions, first_row, sequence, width}, rows * width,
               packed);
}

template <typename S, typename Run>
void add_positions_backward(const Run& run, float* positions_gradient, const S* d_x,
                            std::int64_t first_row, std::int64_t rows, std::int64_t sequence,
                            std::int64_t width, std::int64_t blocks) {
  run_elements(run,
               AddPositionRows<S>{positions_gradient, d_x, first_row, rows / blocks, blocks,
                                  sequence, width},
               std::min(rows, sequence) * width, false);
}

}  // namespace nqd::engine::cuda::bodies
