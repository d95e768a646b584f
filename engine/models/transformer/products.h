// The matrix products of a model under both kinds of numerics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/dtype.h"
#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/threads/worker_pool.h"

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
  KSlices of(std::int64_t full) const;
};

class Products {
 public:
  // `scratch`: planner::product_scratch_elements floats. `workers`: of the library's products, and
  // then those of `fixed` too (else std::invalid_argument: it has packing buffers for its own).
  Products(FixedGemm& fixed, const SliceShare& share, float* scratch, WorkerPool* workers);

  // Fast numerics compute products of float32 by the library, all else by `fixed`.
  void run(const FixedProduct& product);
  // The rank's part of a product whose k is divided by tp, `full` in all: a node of the tree over
  // slices.
  void run_sliced(FixedProduct product, std::int64_t full);
  // The same for the sum over stacked blocks, each divided by tp: out [m,n] float32. A slice is one
  // chain through its part of every block in turn.
  void run_stacked(float* out, std::int64_t m, std::int64_t n, std::span<const StackedBlock> blocks,
                   int tp);

 private:
  // Rows of a result that one worker computes by slices, and where their partial sums lie.
  struct SlicedRows {
    std::int64_t first, count;
    float* scratch;
    std::int64_t scratch_rows;  // from one level of the tree to the next
    int worker;
  };

  void run_slices(float* out, std::int64_t m, std::int64_t n, std::span<const StackedBlock> blocks,
                  int tp);
  void add_slices(float* out, const SlicedRows& rows, std::int64_t n,
                  std::span<const StackedBlock> blocks, int tp);
  void run_slice(float* out, const SlicedRows& rows, std::int64_t n,
                 std::span<const StackedBlock> blocks, int tp, int slice);

  FixedGemm& fixed_;
  SliceShare share_;
  float* scratch_;
  WorkerPool* workers_;
};

}  // namespace nqd::engine
