// The matrix product of canonical numerics (engine/gemm/fixed/fixed_gemm.h) on a device: the bits
// of the CPU, for every split.
#pragma once

#include <cstdint>

#include "engine/cuda/handles.h"
#include "engine/gemm/fixed/fixed_gemm.h"

namespace nqd::engine::cuda {

// Part of a sum over k: `width` columns of op(A) and rows of op(B). Slice s of a product takes its
// k in [s · part, (s + 1) · part), as far as they exist.
struct ProductTerm {
  FixedInput a = {};
  FixedInput b = {};
  std::int64_t width = 0;
  std::int64_t part = 0;
};
struct ProductTerms {
  static constexpr int kMost = 3;
  ProductTerm of[kMost] = {};
  int count = 0;
};

// C [m, n] = Σ over slices, in the tree, of one chain through each slice's part of every term in
// turn; one slice that accumulates starts its chain from C, several are added to it.
struct TermsProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  FixedOutput c = {};
  float alpha = 1.0F;
  bool accumulate = false;
  int slices = 1;  // of this rank
  ProductTerms terms = {};

  // A product of one term, with its slices.
  static TermsProduct of(const FixedProduct& p) {
    const std::int64_t part = p.slices.total > 1 ? p.slices.width : p.k;
    TermsProduct product{p.m, p.n, p.c, p.alpha, p.accumulate, p.slices.count(), {}};
    product.terms.of[0] = {p.a, p.b, p.k, part};
    product.terms.count = 1;
    return product;
  }
};

// Throws NQD3062 for more than 15 slices. C must not overlap an operand.
void fixed_product(StreamHandle stream, const TermsProduct& product);

}  // namespace nqd::engine::cuda
