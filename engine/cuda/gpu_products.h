// The products of a model on a rank's CUDA device.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cuda/gemm.h"
#include "engine/cuda/gpu_kernels.h"
#include "engine/device/products.h"

namespace nqd::engine::cuda {

// Canonical numerics multiplies by kernels/fixed_product.h, with the CPU's bits. Fast numerics
// calls cuBLASLt; an operand of 16 bits beside one of float32 is widened first, and what the
// library does not take (a 16-bit result of float32 operands) is multiplied as in canonical
// numerics.
class GpuProducts final : public Products {
 public:
  // `gemm` is null in canonical numerics. Both must outlive it.
  GpuProducts(StreamHandle stream, CudaGemm* gemm, Scratch& scratch, const SliceShare& share)
      : stream_(stream), gemm_(gemm), scratch_(scratch), share_(share) {}

  bool fuses() const override { return !share_.canonical; }
  bool run_fused(const FixedProduct& product, const ProductEpilogue& epilogue) override;
  void run(const FixedProduct& product) override;
  void run_sliced(FixedProduct product, std::int64_t full) override;
  void run_stacked(float* out, std::int64_t m, std::int64_t n, std::span<const StackedBlock> blocks,
                   int tp) override;

 private:
  // The stored matrix [rows, columns] in float32, with the same stride; itself where it is.
  FixedInput widened(const FixedInput& x, std::int64_t rows, std::int64_t columns);

  StreamHandle stream_;
  CudaGemm* gemm_;
  Scratch& scratch_;
  SliceShare share_;
};

}  // namespace nqd::engine::cuda
