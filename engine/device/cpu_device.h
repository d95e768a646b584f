// The device line on the host: operations are done when their call returns.
#pragma once

#include <memory>
#include <vector>

#include "engine/device/cpu_kernels.h"
#include "engine/device/device.h"
#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/threads/worker_pool.h"

namespace nqd::engine {

// Owns the threads of a rank, which share long operations, and, once products are asked for, their
// packing buffers. No operation allocates.
class CpuDevice final : public Device {
 public:
  // `threads` >= 1.
  explicit CpuDevice(int threads = 1);

  std::unique_ptr<DeviceMemory> allocate(MemoryLedger* ledger, MemoryTag tag, std::size_t bytes,
                                         Reach reach) override;
  bool is_host() const override { return true; }
  GemmLibrary product_library(bool canonical) const override;
  // Throws Error NQD3040 as FixedGemm does.
  std::unique_ptr<Products> make_products(const SliceShare& share, float* scratch) override;

  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  const std::byte* host_view(const void* data, std::size_t bytes) override;
  void synchronize() override {}
  void before_message() override {}

  void copy(void* to, const void* from, std::size_t bytes) override;
  void zero(float* values, std::int64_t count) override;
  void add(float* to, const float* from, std::int64_t count) override;
  void add_through(std::span<float* const> sums, const float* leaf, std::int64_t count) override;
  void narrow(void* to, DType type, const float* from, std::int64_t count) override;
  void add_values(ExactSum& sum, const double* values, std::int64_t count) override;
  void add_squares(ExactSum& sum, const float* values, std::int64_t count) override;
  void collect() override {}
  std::int64_t first_non_finite(const float* values, std::int64_t count) override;

  void adamw_step(std::span<float> weights, std::span<const float> gradients, std::span<float> m,
                  std::span<float> v, std::int64_t step, const AdamwOptions& options,
                  const StoredWeights& stored) override;
  void sgd_step(std::span<float> weights, std::span<const float> gradients,
                std::span<float> velocity, const SgdOptions& options,
                const StoredWeights& stored) override;
  void ema_step(std::span<float> average, std::span<const float> weights, float decay) override;

 private:
  Kernels<float>& kernels_for(float*) override { return float32_; }
  Kernels<BFloat16>& kernels_for(BFloat16*) override { return bfloat16_; }
  Kernels<Float16>& kernels_for(Float16*) override { return float16_; }

  std::unique_ptr<WorkerPool> workers_;  // null: one thread
  std::unique_ptr<FixedGemm> fixed_;
  CpuKernels<float> float32_;
  CpuKernels<BFloat16> bfloat16_;
  CpuKernels<Float16> float16_;
  std::vector<ExactSum> of_threads_;  // of a call of add_squares
};

}  // namespace nqd::engine
