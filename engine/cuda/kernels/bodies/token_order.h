// The rows of a batch in the order of their tokens, rows of one token ascending: a stable radix
// sort by eight bits a pass, without atomics. In each of its two kernels over tiles, thread d of a
// block walks over the tile's keys for digit d.
#pragma once

#include <bit>
#include <utility>

#include "engine/cpu/lookup.h"
#include "engine/cuda/kernels/bodies/elements.h"

namespace nqd::engine::cuda::bodies {

inline constexpr int kDigits = 256;
inline constexpr int kDigitBits = 8;
inline constexpr std::int64_t kSortTile = 1024;

// Keys (a token's place in the range, its size for tokens outside) with their rows.
struct KeyedRows {
  std::int32_t* keys;
  std::int32_t* rows;
};

// Where a sort works: two lists that change places with each pass, and where each digit of each
// tile begins [kDigits, tiles].
struct SortScratch {
  KeyedRows a;
  KeyedRows b;
  std::int32_t* starts;

  static std::int64_t numbers(std::int64_t rows) {
    return 4 * rows + kDigits * divide_up(rows, kSortTile);
  }
  SortScratch(std::int32_t* scratch, std::int64_t rows)
      : a{scratch, scratch + rows},
        b{scratch + 2 * rows, scratch + 3 * rows},
        starts(scratch + 4 * rows) {}
};

struct TokenKeys {
  static constexpr const char* kName = "token_keys";
  static constexpr int kWidth = 1;
  KeyedRows out;
  const std::int32_t* tokens;
  std::int64_t begin;
  std::int64_t end;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const std::int64_t token = tokens[i];
    const bool here = token >= begin && token < end;
    out.keys[i] = static_cast<std::int32_t>(here ? token - begin : end - begin);
    out.rows[i] = static_cast<std::int32_t>(i);
  }
};

// One tile's keys in shared memory; −1 has no digit that a thread looks for.
struct TileKeys {
  std::int32_t digits[kSortTile];

  template <typename Block>
  NQD_DEVICE void fill(Block& block, const std::int32_t* keys, std::int64_t n, int shift) {
    block.each([&](int thread) {
      for (std::int64_t j = thread; j < kSortTile; j += kDigits) {
        const std::int64_t i = block.index() * kSortTile + j;
        digits[j] = i < n ? keys[i] >> shift & (kDigits - 1) : -1;
      }
    });
  }
};

struct CountDigits {
  static constexpr int kThreads = kDigits;
  static constexpr const char* kName = "count_digits";
  std::int32_t* counts;  // [kDigits, tiles]
  const std::int32_t* keys;
  std::int64_t n;
  int shift;

  std::int64_t blocks() const { return divide_up(n, kSortTile); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    TileKeys& tile = block.template shared<TileKeys>();
    tile.fill(block, keys, n, shift);
    block.last([&](int thread) {
      std::int32_t count = 0;
      for (std::int64_t j = 0; j < kSortTile; ++j) count += tile.digits[j] == thread ? 1 : 0;
      counts[thread * divide_up(n, kSortTile) + block.index()] = count;
    });
  }
};

// Counts become starts: of smaller digits everything, of the same digit the tiles before.
struct StartsOfCounts {
  static constexpr int kThreads = kDigits;
  static constexpr const char* kName = "starts_of_counts";
  std::int32_t* counts;
  std::int64_t tiles;

  struct Shared {
    std::int32_t of_digit[kDigits];
  };

  std::int64_t blocks() const { return 1; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    Shared& shared = block.template shared<Shared>();
    block.each([&](int thread) {
      std::int32_t sum = 0;
      for (std::int64_t tile = 0; tile < tiles; ++tile) sum += counts[thread * tiles + tile];
      shared.of_digit[thread] = sum;
    });
    block.last([&](int thread) {
      std::int32_t start = 0;
      for (int digit = 0; digit < thread; ++digit) start += shared.of_digit[digit];
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int32_t count = counts[thread * tiles + tile];
        counts[thread * tiles + tile] = start;
        start += count;
      }
    });
  }
};

struct MoveDigits {
  static constexpr int kThreads = kDigits;
  static constexpr const char* kName = "move_digits";
  KeyedRows to;
  KeyedRows from;
  const std::int32_t* starts;
  std::int64_t n;
  int shift;

  std::int64_t blocks() const { return divide_up(n, kSortTile); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    TileKeys& tile = block.template shared<TileKeys>();
    tile.fill(block, from.keys, n, shift);
    block.last([&](int thread) {
      std::int32_t at = starts[thread * divide_up(n, kSortTile) + block.index()];
      for (std::int64_t j = 0; j < kSortTile; ++j) {
        if (tile.digits[j] != thread) continue;
        to.keys[at] = from.keys[block.index() * kSortTile + j];
        to.rows[at] = from.rows[block.index() * kSortTile + j];
        ++at;
      }
    });
  }
};

// The sorted list, somewhere in `scratch`. At most 2^31 − 1 rows.
template <typename Run>
KeyedRows order_tokens(const Run& run, const std::int32_t* tokens,
                       const cpu::VocabularyRange& range, std::int64_t rows, SortScratch scratch) {
  run_elements(run, TokenKeys{scratch.a, tokens, range.begin, range.end}, rows, false);
  const auto bits = std::bit_width(static_cast<std::uint64_t>(range.end - range.begin));
  for (int shift = 0; shift < static_cast<int>(bits); shift += kDigitBits) {
    run(CountDigits{scratch.starts, scratch.a.keys, rows, shift});
    run(StartsOfCounts{scratch.starts, divide_up(rows, kSortTile)});
    run(MoveDigits{scratch.b, scratch.a, scratch.starts, rows, shift});
    std::swap(scratch.a, scratch.b);
  }
  return scratch.a;
}

}  // namespace nqd::engine::cuda::bodies
