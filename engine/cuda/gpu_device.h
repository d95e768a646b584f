// The device line on a CUDA device.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/cuda/device_memory.h"
#include "engine/cuda/gemm.h"
#include "engine/cuda/gpu_kernels.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/host_copies.h"
#include "engine/cuda/lent_memory.h"
#include "engine/cuda/pool.h"
#include "engine/cuda/streams.h"
#include "engine/device/device.h"
#include "engine/device/repeated_parts.h"

namespace nqd::engine::cuda {

// Operations are launched on one stream, in order; what repeats is a CUDA graph on it. Memory is a
// pool's; beside what is allocated here it gives the operations scratch and the library workspace,
// which no ledger counts (uncounted_memory). Uploads are on the same stream: the place that a
// micro-batch goes to is in use until the one before is done. All calls come from the thread that
// made the object, whose device it is.
class GpuDevice final : public Device {
 public:
  // `plan` says what memory was planned, for the error that it did not suffice. Throws NQD3060
  // where there is no device of that number.
  GpuDevice(int device, std::function<std::string()> plan);
  ~GpuDevice() override;

  std::unique_ptr<engine::DeviceMemory> allocate(MemoryLedger* ledger, MemoryTag tag,
                                                 std::size_t bytes, Reach reach) override;
  bool is_host() const override { return false; }
  GemmLibrary product_library(bool canonical) const override;
  std::string attention_library() const override;
  // Throws NQD3061 where fast numerics lacks its library.
  std::unique_ptr<Products> make_products(const SliceShare& share, float* scratch) override;

  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  const std::byte* host_view(const void* data, std::size_t bytes) override;
  // Once attached, looks at the communicators meanwhile.
  void synchronize() override;
  // Communicators are given compute_stream().
  void before_message() override {}
  collectives::DeviceStream compute_stream() const override { return compute_.handle(); }
  void attach(MessageHooks hooks) override;

  void copy(void* to, const void* from, std::size_t bytes) override;
  void zero(float* values, std::int64_t count) override;
  void add(float* to, const float* from, std::int64_t count) override;
  void add_through(std::span<float* const> sums, const float* leaf, std::int64_t count) override;
  void narrow(void* to, DType type, const float* from, std::int64_t count) override;
  void add_values(ExactSum& sum, const double* values, std::int64_t count) override;
  void add_squares(ExactSum& sum, const float* values, std::int64_t count) override;
  void collect() override;
  std::int64_t first_non_finite(const float* values, std::int64_t count) override;

  void adamw_step(std::span<float> weights, std::span<const float> gradients, std::span<float> m,
                  std::span<float> v, std::int64_t step, const AdamwOptions& options,
                  const StoredWeights& stored) override;
  void sgd_step(std::span<float> weights, std::span<const float> gradients,
                std::span<float> velocity, const SgdOptions& options,
                const StoredWeights& stored) override;
  void ema_step(std::span<float> average, std::span<const float> weights, float decay) override;

  // Throws NQD4063 where body() cannot be recorded, and std::logic_error from within it where it
  // does what it must not.
  bool repeat(const Repetition& which, const std::function<void()>& body) override;
  bool can_repeat() const override { return true; }
  double waited_s() const override { return waited_s_ + uploads_.waited_s(); }
  UncountedMemory uncounted_memory() const override;

 private:
  Graph record(const std::function<void()>& body);
  void wait_for_stream();
  void refuse_while_recording() const;
  // Those of fast numerics.
  void open_libraries();

  Kernels<float>& kernels_for(float*) override { return float32_; }
  Kernels<BFloat16>& kernels_for(BFloat16*) override { return bfloat16_; }
  Kernels<Float16>& kernels_for(Float16*) override { return float16_; }

  struct ChosenDevice {
    explicit ChosenDevice(int device) { use_device(device); }
  };

  int device_;
  ChosenDevice chosen_;  // before all that is of the device
  DeviceMemory source_;
  LentMemory blocks_{source_};
  DevicePool pool_;
  Stream compute_;
  Event mark_;
  std::function<void()> look_;  // empty: nobody's
  Scratch scratch_;
  Uploads uploads_;
  HostSums sums_;
  PinnedBuffer view_;
  RepeatedParts<Graph> parts_;
  bool recording_ = false;
  double waited_s_ = 0;
  DeviceBuffer library_workspace_;
  std::unique_ptr<CudaGemm> gemm_;
  std::unique_ptr<FusedAttention> fused_attention_;
  GpuKernels<float> float32_;
  GpuKernels<BFloat16> bfloat16_;
  GpuKernels<Float16> float16_;
};

}  // namespace nqd::engine::cuda
