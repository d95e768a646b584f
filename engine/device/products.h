// The matrix products of a model under both kinds of numerics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/dtype.h"
#include "engine/gemm/fixed/fixed_gemm.h"

namespace nqd::engine {

template <typename T>
constexpr DType type_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBFloat16;
  return DType::kFloat16;
}

template <typename T>
FixedInput matrix(const T* data, std::int64_t stride, Transpose op = Transpose::kNo) {
  return {data, stride, op, type_of<T>()};
}
template <typename T>
FixedOutput result(T* data, std::int64_t stride) {
  return {data, stride, type_of<T>()};
}

// A part of the sum over k of a product of stacked blocks (q | k | v, gate | up): `width` columns
// of a and rows of b.
struct StackedBlock {
  FixedInput a;
  FixedInput b;
  std::int64_t width = 0;
};

// The at most three blocks of a layer's products, without a heap.
class StackedBlocks {
 public:
  void add(const StackedBlock& block) { blocks_[count_++] = block; }
  operator std::span<const StackedBlock>() const { return {blocks_.data(), count_}; }

 private:
  std::array<StackedBlock, 3> blocks_{};
  std::size_t count_ = 0;
};

// Which slices of the sums that tp divides are a rank's, and how rows are summed.
struct SliceShare {
  bool canonical = false;  // else every sum is one slice
  int total = 1;
  int first = 0;
  int count = 1;

  // Of a sum over `full` terms of all tp ranks together.
  KSlices of(std::int64_t full) const {
    return canonical ? KSlices{total, first, first + count, width(full)} : KSlices{};
  }
  // Terms of a slice.
  std::int64_t width(std::int64_t full) const { return (full + total - 1) / total; }
};

// What follows a product C [m, n] in the operation that computes it. Pointers are to elements of
// C's type unless it says otherwise; matrices [m, n] have rows as far apart as C's.
struct ProductEpilogue {
  enum class Kind : unsigned char {
    kBias,          // C += bias
    kResidual,      // C += bias, where there is one, + residual
    kGelu,          // before_gelu = C + bias, where there is one; C = gelu(before_gelu)
    kGeluBackward,  // C *= gelu'(before_gelu)
    kRowSums,       // row_sums += the sums over k of op(A)
  };
  Kind kind = Kind::kBias;
  const void* bias = nullptr;      // [n]
  const void* residual = nullptr;  // [m, n]; may be C
  void* before_gelu = nullptr;     // [m, n]
  float* row_sums = nullptr;       // [m]
};

// Operations in the order of Device, on its memory.
class Products {
 public:
  virtual ~Products() = default;

  // Whether run_fused is to be asked, and results that are rounded to 16 bits next are better
  // stored so at once: fast numerics where passes over memory cost more than sums that are rounded
  // elsewhere.
  virtual bool fuses() const { return false; }
  // The product and what follows it in one operation. False: the device has none for this shape and
  // has done nothing; the caller takes product and passes one after the other, which give the same
  // but for roundings in between.
  virtual bool run_fused(const FixedProduct& product, const ProductEpilogue& epilogue) {
    static_cast<void>(product);
    static_cast<void>(epilogue);
    return false;
  }

  // In canonical numerics the bits of FixedProduct; in fast numerics the device chooses the order
  // of the sums, and a product of equal operands has equal bits.
  virtual void run(const FixedProduct& product) = 0;
  // The rank's part of a product whose k is divided by tp, `full` in all: a node of the tree over
  // slices.
  virtual void run_sliced(FixedProduct product, std::int64_t full) = 0;
  // The same for the sum over stacked blocks, each divided by tp: out [m,n] float32. A slice is one
  // chain through its part of every block in turn.
  virtual void run_stacked(float* out, std::int64_t m, std::int64_t n,
                           std::span<const StackedBlock> blocks, int tp) = 0;
};

}  // namespace nqd::engine
