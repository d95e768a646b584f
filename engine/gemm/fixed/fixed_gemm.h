// The matrix product of canonical numerics: the same bits for every split, thread count and CPU.
//
// An element of the result is one chain of fused multiply-adds (IEEE 754 fusedMultiplyAdd, one
// rounding a step) over k = 0 … K−1 in ascending order:
//
//     s = 0;  for k ascending: s = fma(a[i,k], b[k,j], s);  c[i,j] = s
//
// so that it depends on row i of op(A) and column j of op(B) alone: not on m, n, strides,
// transposition, pointers, threads or the width of vectors. The order of the chain is part of the
// contract; so is where alpha enters: b[k,j] is the stored value widened to float32 and multiplied
// by alpha, rounded to float32.
//
// Not promised: the payload and sign of a NaN. The floating-point environment is the default one
// (round to nearest, denormals kept).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/ledger.h"
#include "engine/gemm/gemm.h"

namespace nqd::engine {

class WorkerPool;

namespace fixed {
struct KernelSet;
}

// A stored row-major matrix of float32, bfloat16 or float16, `stride` elements from row to row,
// used transposed when `op` is kYes.
struct FixedInput {
  const void* data = nullptr;
  std::int64_t stride = 0;
  Transpose op = Transpose::kNo;
  DType type = DType::kFloat32;
};

// As above; a half-width result is rounded once, from the finished float32 element.
struct FixedOutput {
  void* data = nullptr;
  std::int64_t stride = 0;
  DType type = DType::kFloat32;
};

// A product cut along k into chains of their own, which are added in the binary tree of
// collectives/reduce_tree.h: split at the largest power of two below the number of slices, so that
// nearest neighbours meet first. Slice s is k in [s·width, min((s+1)·width, K)); it may be empty,
// and is then +0.
//
// A tensor-parallel rank computes slices [first, last) of the `total` of the whole product: its
// operands hold the k of those slices only, k = 0 being the first of slice `first`. Its result is
// that subtree, and reduce_tree over the ranks' results gives the bits of the whole. [first, last)
// must be a node of the tree (always so where ranks and slices are powers of two).
struct KSlices {
  int total = 1;
  int first = 0;
  int last = 1;
  std::int64_t width = 0;  // unused when total is 1

  // All slices of a product over k, which `total` divides.
  static KSlices whole(int total, std::int64_t k) { return {total, 0, total, k / total}; }
  int count() const { return last - first; }
};

// C[m,n] = alpha · op(A)[m,k] · op(B)[k,n], m, n, k >= 0 (k = 0: zeros).
struct FixedProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  FixedInput a = {};
  FixedInput b = {};
  FixedOutput c = {};
  float alpha = 1.0F;
  // One slice (total = 1): the chain starts from C instead of 0, so that products added one after
  // another equal one product over all of their k. Several: C + tree, one addition.
  bool accumulate = false;
  KSlices slices = {};
};

// Computes fixed products with the workers of one rank; owns their packing buffers, so that no
// call allocates. One call at a time; different objects are independent.
class FixedGemm {
 public:
  // Without a pool the calling thread works alone. Both must outlive this object. `kernel` is
  // "portable", "avx2" or "avx512"; empty: what NQD_GEMM_KERNEL says, else the best for this CPU.
  // Throws Error NQD3040 (kEnvironment) for a kernel that is unknown or that this CPU lacks.
  explicit FixedGemm(MemoryLedger* ledger, WorkerPool* pool = nullptr,
                     std::string_view kernel = {});

  // Throws Error NQD4041 (kFault) for slices that are no node of the tree or do not cover k. C must
  // not overlap A or B.
  void run(const FixedProduct& product);
  // The same on the calling thread alone, which is worker `worker` of the pool; the others may do
  // likewise meanwhile. Precondition: a worker of the pool that this object was given.
  void run_alone(const FixedProduct& product, int worker);

  const WorkerPool* pool() const { return pool_; }

  // Packing buffers (kWorkspace), a constant of the number of threads.
  static std::int64_t scratch_bytes(int threads);

 private:
  const fixed::KernelSet& kernels_;
  WorkerPool* pool_;
  Buffer scratch_;
};

// What runs in this process when nothing else is asked for: name "fixed", the kernel as core
// ("avx512 8x48"), and a warning when NQD_GEMM_KERNEL forces another than the best. Throws as
// FixedGemm does.
GemmLibrary fixed_gemm_library();

}  // namespace nqd::engine
