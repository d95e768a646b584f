// engine/gemm/fixed/fixed_gemm.h on the device: the same bits. One block computes 64 · 64 elements,
// a thread 4 · 4 of them, each one chain of fused multiply-adds in ascending k.
#pragma once

#include <cmath>
#include <string>

#include "base/error.h"
#include "engine/cuda/kernels/body.h"
#include "engine/cuda/kernels/fixed_product.h"

namespace nqd::engine::cuda::bodies {

// A thread's elements; sums of them element by element.
struct ProductTile {
  static constexpr int kSide = 4;
  float of[kSide * kSide];

  NQD_DEVICE ProductTile operator+(const ProductTile& other) const {
    ProductTile sum;
    NQD_UNROLL
    for (int i = 0; i < kSide * kSide; ++i) sum.of[i] = of[i] + other.of[i];
    return sum;
  }
};

template <typename Block>
NQD_DEVICE float stored_value(const void* data, DType type, std::int64_t at) {
  if (type == DType::kBFloat16) return Block::widen(static_cast<const BFloat16*>(data)[at]);
  if (type == DType::kFloat16) return Block::widen(static_cast<const Float16*>(data)[at]);
  return static_cast<const float*>(data)[at];
}
template <typename Block>
NQD_DEVICE void store_value(void* data, DType type, std::int64_t at, float value) {
  if (type == DType::kBFloat16) {
    static_cast<BFloat16*>(data)[at] = Block::template narrow<BFloat16>(value);
  } else if (type == DType::kFloat16) {
    static_cast<Float16*>(data)[at] = Block::template narrow<Float16>(value);
  } else {
    static_cast<float*>(data)[at] = value;
  }
}

// 64 rows of op(A) or columns of op(B) by kDepth values of k.
template <int kRows, int kDepth>
struct ProductPanel {
  float of[kDepth][kRows + 4];

  // `lines` of the operand's rows (columns) from `first` on, k in [k, k + depth); `across` is the
  // distance from line to line, `along` that from k to k + 1, one of them 1.
  template <typename Block>
  NQD_DEVICE void fill(int thread, const FixedInput& x, std::int64_t first, std::int64_t lines,
                       std::int64_t k, int depth, std::int64_t across, std::int64_t along,
                       float scale) {
    for (int i = thread; i < kRows * kDepth; i += Block::kThreads) {
      // Adjacent threads read adjacent elements.
      const int line = along == 1 ? i / kDepth : i % kRows;
      const int step = along == 1 ? i % kDepth : i / kRows;
      const bool exists = first + line < lines && step < depth;
      const std::int64_t at = (first + line) * across + (k + step) * along;
      of[step][line] = exists ? stored_value<Block>(x.data, x.type, at) * scale : 0.0F;
    }
  }
};

// kSliced: the slices of the sum are added in the tree; else there is one.
template <bool kSliced>
struct FixedProductBody {
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "fixed_product";
  static constexpr int kTile = 64;
  static constexpr int kDepth = 16;
  static constexpr int kLevels = 4;
  static constexpr int kSide = ProductTile::kSide;
  using Panel = ProductPanel<kTile, kDepth>;
  std::int64_t m;
  std::int64_t n;
  FixedOutput c;
  float alpha;
  bool accumulate;
  int slices;
  ProductTerms terms;

  struct Shared {
    Panel a;
    Panel b;
  };
  struct State {
    ProductTile sum;
    TreeSum<ProductTile, kLevels> tree;
  };
  // The place of a thread's elements.
  struct Corner {
    std::int64_t row, column;
  };

  std::int64_t blocks() const { return divide_up(m, kTile) * divide_up(n, kTile); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const Place tile = place_of(block.index(), divide_up(n, kTile));
    const Corner first{tile.row * kTile, tile.column * kTile};
    Shared& shared = block.template shared<Shared>();
    typename Block::template Own<State> states;
    block.each([&](int thread) {
      State state{};
      if (!kSliced && accumulate) state.sum = stored<Block>(corner(first, thread));
      states[thread] = state;
    });
    for (int slice = 0; slice < slices; ++slice) {
      NQD_UNROLL
      for (int t = 0; t < ProductTerms::kMost; ++t) {
        if (t < terms.count) add_term(block, shared, states, first, terms.of[t], slice);
      }
      if constexpr (kSliced) {
        block.each([&](int thread) {
          states[thread].tree.add(states[thread].sum);
          states[thread].sum = ProductTile{};
        });
      }
    }
    block.last([&](int thread) {
      const Corner at = corner(first, thread);
      ProductTile result = states[thread].sum;
      if constexpr (kSliced) {
        result = states[thread].tree.total();
        if (accumulate) result = stored<Block>(at) + result;
      }
      write<Block>(at, result);
    });
  }

 private:
  static NQD_DEVICE Corner corner(const Corner& first, int thread) {
    constexpr int kOfRow = kTile / kSide;
    return {first.row + thread / kOfRow * kSide, first.column + thread % kOfRow * kSide};
  }

  template <typename Block, typename States>
  NQD_DEVICE void add_term(Block& block, Shared& shared, States& states, const Corner& first,
                           const ProductTerm& term, int slice) const {
    const std::int64_t from = slice * term.part;
    const std::int64_t begin = from < term.width ? from : term.width;
    const std::int64_t end = begin + term.part < term.width ? begin + term.part : term.width;
    const bool a_t = term.a.op == Transpose::kYes;
    const bool b_t = term.b.op == Transpose::kYes;
    for (std::int64_t k = begin; k < end; k += kDepth) {
      const int depth = end - k < kDepth ? static_cast<int>(end - k) : kDepth;
      block.each([&](int thread) {
        shared.a.template fill<Block>(thread, term.a, first.row, m, k, depth,
                                      a_t ? 1 : term.a.stride, a_t ? term.a.stride : 1, 1.0F);
        shared.b.template fill<Block>(thread, term.b, first.column, n, k, depth,
                                      b_t ? term.b.stride : 1, b_t ? 1 : term.b.stride, alpha);
      });
      block.each([&](int thread) { multiply(shared, thread, depth, states[thread].sum); });
    }
  }

  static NQD_DEVICE void multiply(const Shared& shared, int thread, int depth, ProductTile& sum) {
    const Corner at = corner({0, 0}, thread);
    // Not beyond `depth`: adding a product of zeros would turn −0 into +0.
    for (int k = 0; k < depth; ++k) {
      NQD_UNROLL
      for (int i = 0; i < kSide; ++i) {
        NQD_UNROLL
        for (int j = 0; j < kSide; ++j) {
          sum.of[i * kSide + j] = std::fma(shared.a.of[k][at.row + i],
                                           shared.b.of[k][at.column + j], sum.of[i * kSide + j]);
        }
      }
    }
  }

  template <typename Block>
  NQD_DEVICE ProductTile stored(const Corner& at) const {
    ProductTile tile{};
    NQD_UNROLL
    for (int i = 0; i < kSide * kSide; ++i) {
      const std::int64_t row = at.row + i / kSide, column = at.column + i % kSide;
      if (row < m && column < n) {
        tile.of[i] = stored_value<Block>(c.data, c.type, row * c.stride + column);
      }
    }
    return tile;
  }
  template <typename Block>
  NQD_DEVICE void write(const Corner& at, const ProductTile& tile) const {
    NQD_UNROLL
    for (int i = 0; i < kSide * kSide; ++i) {
      const std::int64_t row = at.row + i / kSide, column = at.column + i % kSide;
      if (row < m && column < n) {
        store_value<Block>(c.data, c.type, row * c.stride + column, tile.of[i]);
      }
    }
  }
};

template <typename Run>
void fixed_product(const Run& run, const TermsProduct& p) {
  if (p.slices <= 1) {
    run(FixedProductBody<false>{p.m, p.n, p.c, p.alpha, p.accumulate, 1, p.terms});
    return;
  }
  if (p.slices >= 1 << FixedProductBody<true>::kLevels) {
    throw Error(ExitCode::kUsage, "NQD3062",
                "a canonical product on a GPU takes at most 15 slices of a rank, not " +
                    std::to_string(p.slices),
                "take a smaller numerics.tp_slices");
  }
  run(FixedProductBody<true>{p.m, p.n, p.c, p.alpha, p.accumulate, p.slices, p.terms});
}

}  // namespace nqd::engine::cuda::bodies
