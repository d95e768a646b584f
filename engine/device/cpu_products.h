// The products of a model on the threads of a rank.
#pragma once

#include <cstdint>
#include <span>

#include "engine/device/products.h"
#include "engine/threads/worker_pool.h"

namespace nqd::engine {

class CpuProducts final : public Products {
 public:
  // `scratch`: planner::product_scratch_elements floats. `workers`: of the library's products, and
  // then those of `fixed` too (else std::invalid_argument: it has packing buffers for its own).
  CpuProducts(FixedGemm& fixed, const SliceShare& share, float* scratch, WorkerPool* workers);

  // Fast numerics compute products of float32 by the library, all else by `fixed`.
  void run(const FixedProduct& product) override;
  void run_sliced(FixedProduct product, std::int64_t full) override;
  void run_stacked(float* out, std::int64_t m, std::int64_t n, std::span<const StackedBlock> blocks,
                   int tp) override;

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
