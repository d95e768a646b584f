#include "engine/cuda/gpu_device.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/cuda/device.h"
#include "engine/cuda/gpu_products.h"
#include "engine/cuda/kernels/convert.h"
#include "engine/cuda/kernels/optimizer.h"
#include "engine/cuda/make_cuda_device.h"
#include "engine/cuda/wait_looking.h"

namespace nqd::engine::cuda {
namespace {

// What NVIDIA advises for sm_90 (cuBLAS documentation, cublasSetWorkspace).
constexpr std::size_t kLibraryWorkspace = std::size_t{32} << 20;

// A pool's buffer, counted in the ledger of whoever asked for it.
class CountedMemory final : public engine::DeviceMemory {
 public:
  CountedMemory(MemoryLedger* ledger, MemoryTag tag, DeviceBuffer buffer)
      : engine::DeviceMemory(buffer.data()),
        ledger_(ledger),
        tag_(tag),
        buffer_(std::move(buffer)) {
    if (ledger_ != nullptr) ledger_->add(tag_, buffer_.size());
  }
  ~CountedMemory() override {
    if (ledger_ != nullptr) ledger_->remove(tag_, buffer_.size());
  }

 private:
  MemoryLedger* ledger_;
  MemoryTag tag_;
  DeviceBuffer buffer_;
};

// Set for as long as this lives.
class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag) { flag_ = true; }
  ~Flag() { flag_ = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
};

// Calls update(copy), or update() where no copy is stored.
template <typename Update>
void with_stored(const StoredWeights& stored, const Update& update) {
  if (stored.data == nullptr) {
    update();
  } else if (stored.type == DType::kBFloat16) {
    update(static_cast<BFloat16*>(stored.data));
  } else {
    update(static_cast<Float16*>(stored.data));
  }
}

template <typename T>
std::int64_t length(std::span<T> values) {
  return static_cast<std::int64_t>(values.size());
}

}  // namespace

GpuDevice::GpuDevice(int device, std::function<std::string()> plan)
    : device_(device),
      chosen_(device),
      pool_(blocks_, nullptr, std::move(plan)),
      scratch_(pool_),
      float32_(compute_.handle(), scratch_),
      bfloat16_(compute_.handle(), scratch_),
      float16_(compute_.handle(), scratch_) {}

// What is still on its way, messages that the compute stream is behind among it, uses memory that
// is freed now.
GpuDevice::~GpuDevice() {
  try {
    wait_for_stream();
  } catch (const Error&) {
    // An earlier call's error, which has been or will be reported.
  }
}

std::unique_ptr<engine::DeviceMemory> GpuDevice::allocate(MemoryLedger* ledger, MemoryTag tag,
                                                          std::size_t bytes, Reach) {
  DeviceBuffer buffer = pool_.allocate(tag, bytes);
  if (bytes > 0) fill_zero(compute_.handle(), buffer.data(), bytes);
  return std::make_unique<CountedMemory>(ledger, tag, std::move(buffer));
}

GemmLibrary GpuDevice::product_library(bool canonical) const {
  const CudaStatus status = cuda_status();
  const std::string& device = status.devices[static_cast<std::size_t>(device_)].name;
  if (canonical) return {"fixed, CUDA", status.runtime_version, device, {}};
  const CudaProductLibrary library = cuda_product_library();
  // "cuBLASLt 13.0.2".
  const std::size_t space = std::min(library.version.find(' '), library.version.size());
  const std::size_t number = std::min(space + 1, library.version.size());
  return {library.version.substr(0, space), library.version.substr(number), device, library.reason};
}

std::string GpuDevice::attention_library() const {
  if (fused_attention_) return fused_attention_->description();
  // Canonical numerics: a head's bits may not depend on how many there are.
  return gemm_ ? "own kernels: " + fused_attention_status().reason : "own kernels";
}

void GpuDevice::open_libraries() {
  library_workspace_ = pool_.allocate(MemoryTag::kWorkspace, kLibraryWorkspace);
  gemm_ = std::make_unique<CudaGemm>(library_workspace_.data(), library_workspace_.size());
  fused_attention_ = make_fused_attention(
      compute_.handle(), [this](std::int64_t bytes) { return scratch_.of<std::byte>(bytes); });
  const FusedAttentionStatus status = fused_attention_status();
  if (status.built && !status.reason.empty()) {
    log::warn("attention stays with nqd's own kernels: " + status.reason);
  }
  bfloat16_.prefer(fused_attention_.get());
  float16_.prefer(fused_attention_.get());
}

std::unique_ptr<Products> GpuDevice::make_products(const SliceShare& share, float*) {
  if (!share.canonical && !gemm_) open_libraries();
  return std::make_unique<GpuProducts>(compute_.handle(), gemm_.get(), scratch_, share);
}

void GpuDevice::attach(MessageHooks hooks) {
  look_ = std::move(hooks.look);
  blocks_.lend(std::move(hooks.allocate), std::move(hooks.release), [this] { wait_for_stream(); });
}

void GpuDevice::wait_for_stream() {
  if (!look_) return compute_.synchronize();
  mark_.record(compute_.handle());
  wait_looking([this] { return mark_.done(); }, look_);
}

void GpuDevice::upload(void* to, const void* from, std::size_t bytes) {
  refuse_while_recording();
  uploads_.copy(compute_.handle(), to, from, bytes, look_);
}

void GpuDevice::download(void* to, const void* from, std::size_t bytes) {
  refuse_while_recording();
  const CountedWait wait(waited_s_);
  // First: a copy to memory that is not pinned holds the host in the driver, where it cannot look
  // at lost ranks, until what is before it is done.
  if (look_) wait_for_stream();
  if (bytes > 0) copy_async(compute_.handle(), to, from, bytes);
  wait_for_stream();
}

void GpuDevice::synchronize() {
  refuse_while_recording();
  const CountedWait wait(waited_s_);
  wait_for_stream();
}

const std::byte* GpuDevice::host_view(const void* data, std::size_t bytes) {
  if (bytes > view_.size()) view_ = PinnedBuffer(nullptr, MemoryTag::kWorkspace, bytes);
  download(view_.data(), data, bytes);
  return view_.data();
}

void GpuDevice::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) copy_async(compute_.handle(), to, from, bytes);
}

void GpuDevice::zero(float* values, std::int64_t count) {
  if (count > 0) {
    fill_zero(compute_.handle(), values, static_cast<std::size_t>(count) * sizeof(float));
  }
}

void GpuDevice::add(float* to, const float* from, std::int64_t count) {
  cuda::add_all(compute_.handle(), to, from, count);
}

void GpuDevice::add_through(std::span<float* const> sums, const float* leaf, std::int64_t count) {
  cuda::add_through(compute_.handle(), sums, leaf, count);
}

void GpuDevice::narrow(void* to, DType type, const float* from, std::int64_t count) {
  if (type == DType::kBFloat16) {
    cuda::narrow_all(compute_.handle(), static_cast<BFloat16*>(to), from, count);
  } else {
    cuda::narrow_all(compute_.handle(), static_cast<Float16*>(to), from, count);
  }
}

void GpuDevice::add_values(ExactSum& sum, const double* values, std::int64_t count) {
  if (count == 0) return;
  refuse_while_recording();
  const auto numbers = static_cast<std::size_t>(count);
  copy_async(compute_.handle(), sums_.take(sum, numbers), values, numbers * sizeof(double));
}

// The kernel writes its one result where the host reads it.
void GpuDevice::add_squares(ExactSum& sum, const float* values, std::int64_t count) {
  if (count == 0) return;
  refuse_while_recording();
  double* const room = scratch_.of<double>(sum_of_squares_scratch(count));
  cuda::sum_of_squares(compute_.handle(), sums_.take(sum, 1), values, count, room);
}

void GpuDevice::collect() {
  if (sums_.empty()) return;
  synchronize();
  sums_.add_up();
}

std::int64_t GpuDevice::first_non_finite(const float* values, std::int64_t count) {
  if (count == 0) return -1;
  auto* const on_device = scratch_.of<std::int64_t>(1 + kNonFiniteScratch);
  cuda::first_non_finite(compute_.handle(), on_device, values, count, on_device + 1);
  std::int64_t index = -1;
  download(&index, on_device, sizeof index);
  return index;
}

void GpuDevice::adamw_step(std::span<float> weights, std::span<const float> gradients,
                           std::span<float> m, std::span<float> v, std::int64_t step,
                           const AdamwOptions& options, const StoredWeights& stored) {
  with_stored(stored, [&](auto*... copy) {
    cuda::adamw_step(compute_.handle(), weights.data(), copy..., gradients.data(), m.data(),
                     v.data(), length(weights), step, options);
  });
}

void GpuDevice::sgd_step(std::span<float> weights, std::span<const float> gradients,
                         std::span<float> velocity, const SgdOptions& options,
                         const StoredWeights& stored) {
  with_stored(stored, [&](auto*... copy) {
    cuda::sgd_step(compute_.handle(), weights.data(), copy..., gradients.data(),
                   velocity.empty() ? nullptr : velocity.data(), length(weights), options);
  });
}

void GpuDevice::ema_step(std::span<float> average, std::span<const float> weights, float decay) {
  cuda::ema_step(compute_.handle(), average.data(), weights.data(), length(weights), decay);
}

bool GpuDevice::repeat(const Repetition& which, const std::function<void()>& body) {
  return parts_.repeat(
      which, body, [&] { return scratch_.growths(); },
      [&](const std::function<void()>& part) { return record(part); },
      [&](const Graph& graph) { graph.launch(compute_.handle()); });
}

Graph GpuDevice::record(const std::function<void()>& body) {
  const Flag recording(recording_);
  try {
    return {compute_.handle(), body};
  } catch (const Error& error) {
    if (error.code() != "NQD4060") throw;
    throw Error(
        ExitCode::kFault, "NQD4063",
        std::string("a part of the step cannot be recorded as a CUDA graph: ") + error.what(),
        "--no-graph starts every operation by itself; please report the message");
  }
}

void GpuDevice::refuse_while_recording() const {
  if (recording_) throw std::logic_error("a repeated part of a step waits for the host");
}

UncountedMemory GpuDevice::uncounted_memory() const {
  return {scratch_.bytes(), library_workspace_.size(),
          uploads_.pinned_bytes() + sums_.pinned_bytes() + view_.size(),
          pool_.peak_reserved_bytes()};
}

}  // namespace nqd::engine::cuda

namespace nqd::engine {

std::unique_ptr<Device> make_cuda_device(int index, std::function<std::string()> plan) {
  return std::make_unique<cuda::GpuDevice>(index, std::move(plan));
}

}  // namespace nqd::engine
