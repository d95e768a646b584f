// Sums over rows, in the order that any tensor-parallel split of the rows can reproduce.
//
// The rows are cut into equal contiguous blocks. A block's sum is one chain over its rows,
// ascending, per column; the blocks' sums are added in the tree of collectives/canonical/tree.h. A
// rank that holds some of the blocks calls with its own rows and their number: where they are a
// node of the tree (all of them, or 2^k from a multiple of 2^k on), its result is that node, and
// the ranks' results added in the same tree are the sum over all rows, to the bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace nqd::engine::cpu {

// Columns that are summed at a time: small enough for a tree of partial sums on the stack, wide
// enough for whole cache lines and pages in a row.
inline constexpr std::int64_t kSumColumns = 256;

template <typename T, int kSums>
struct PartialSums {
  alignas(64) T values[kSums][kSumColumns];
};

// The rows that a sum takes: first, first + step, …; all of them by default.
struct RowStep {
  std::int64_t first = 0;
  std::int64_t step = 1;

  // The first such row from `row` on.
  std::int64_t from(std::int64_t row) const { return row + (first - row % step + step) % step; }
};

// out = the node of `blocks` blocks of `rows` rows each. add_row(row, sums) adds one row's terms.
template <typename T, int kSums, typename AddRow>
void sum_blocks(PartialSums<T, kSums>& out, std::int64_t first_row, std::int64_t rows,
                std::int64_t blocks, std::int64_t columns, const RowStep& step,
                const AddRow& add_row) {
  if (blocks == 1) {
    for (int s = 0; s < kSums; ++s) std::fill_n(out.values[s], columns, T(0));
    for (std::int64_t row = step.from(first_row); row < first_row + rows; row += step.step) {
      add_row(row, out);
    }
    return;
  }
  const auto left =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(blocks - 1)));
  PartialSums<T, kSums> right;
  sum_blocks(out, first_row, rows, left, columns, step, add_row);
  sum_blocks(right, first_row + left * rows, rows, blocks - left, columns, step, add_row);
  for (int s = 0; s < kSums; ++s) {
    T* __restrict to = out.values[s];
    const T* __restrict from = right.values[s];
    for (std::int64_t i = 0; i < columns; ++i) to[i] += from[i];
  }
}

// Adds to sums[s][column] the sum over `rows` rows in `blocks` blocks (a divisor of rows).
// add_row(row, first column, columns, partial sums) adds the terms of one row.
template <typename T, int kSums, typename AddRow>
void add_row_sums(T* const (&sums)[kSums], std::int64_t rows, std::int64_t width,
                  std::int64_t blocks, const RowStep& step, const AddRow& add_row) {
  for (std::int64_t first = 0; first < width; first += kSumColumns) {
    const std::int64_t columns = std::min(kSumColumns, width - first);
    PartialSums<T, kSums> total;
    sum_blocks(
        total, 0, rows / blocks, blocks, columns, step,
        [&](std::int64_t row, PartialSums<T, kSums>& into) { add_row(row, first, columns, into); });
    for (int s = 0; s < kSums; ++s) {
      T* __restrict to = sums[s] + first;
      for (std::int64_t i = 0; i < columns; ++i) to[i] += total.values[s][i];
    }
  }
}

}  // namespace nqd::engine::cpu
