#include "engine/device/cpu_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "collectives/canonical/accumulator.h"
#include "collectives/shared/shared_buffer.h"
#include "engine/cpu/convert.h"
#include "engine/device/cpu_products.h"

namespace nqd::engine {
namespace {

// Below this many elements waking the others costs more than they save.
constexpr std::int64_t kSharedElements = 1 << 15;

// Calls f(worker, begin, end) for parts that cover [0, count) once, at the same time on the workers
// of `pool`; null, or a short count: the whole, as worker 0.
template <typename F>
void share_out(WorkerPool* pool, std::int64_t count, const F& f) {
  if (pool == nullptr || count < kSharedElements) {
    f(0, std::int64_t{0}, count);
    return;
  }
  pool->run([&](int worker) {
    const WorkerShare share = worker_share(count, worker, pool->threads());
    f(worker, share.begin, share.end);
  });
}

// B is Buffer or collectives::SharedBuffer.
template <typename B>
class HostMemory final : public DeviceMemory {
 public:
  explicit HostMemory(B buffer) : DeviceMemory(buffer.data()), buffer_(std::move(buffer)) {}

 private:
  B buffer_;
};

template <typename T>
std::span<T> part_of(std::span<T> all, std::int64_t begin, std::int64_t end) {
  return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

template <typename T>
std::int64_t length(std::span<T> values) {
  return static_cast<std::int64_t>(values.size());
}

}  // namespace

CpuDevice::CpuDevice(int threads)
    : workers_(threads == 1 ? nullptr : std::make_unique<WorkerPool>(threads)),
      float32_(workers_.get()),
      bfloat16_(workers_.get()),
      float16_(workers_.get()),
      of_threads_(static_cast<std::size_t>(threads)) {}

std::unique_ptr<DeviceMemory> CpuDevice::allocate(MemoryLedger* ledger, MemoryTag tag,
                                                  std::size_t bytes, Reach reach) {
  if (reach == Reach::kOwn) {
    return std::make_unique<HostMemory<Buffer>>(Buffer(ledger, tag, bytes));
  }
  using collectives::SharedBuffer;
  return std::make_unique<HostMemory<SharedBuffer>>(SharedBuffer(ledger, tag, bytes));
}

GemmLibrary CpuDevice::product_library(bool canonical) const {
  return canonical ? fixed_gemm_library() : gemm_library();
}

std::unique_ptr<Products> CpuDevice::make_products(const SliceShare& share, float* scratch) {
  // Its packing buffers are workspace that no plan counts, as a library's are.
  if (!fixed_) fixed_ = std::make_unique<FixedGemm>(nullptr, workers_.get());
  return std::make_unique<CpuProducts>(*fixed_, share, scratch, workers_.get());
}

void CpuDevice::upload(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }

void CpuDevice::download(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }

const std::byte* CpuDevice::host_view(const void* data, std::size_t) {
  return static_cast<const std::byte*>(data);
}

void CpuDevice::copy(void* to, const void* from, std::size_t bytes) {
  constexpr std::int64_t kUnit = sizeof(float);
  const auto size = static_cast<std::int64_t>(bytes);
  share_out(
      workers_.get(), (size + kUnit - 1) / kUnit, [&](int, std::int64_t begin, std::int64_t end) {
        const std::int64_t first = begin * kUnit;
        const std::int64_t count = std::min(end * kUnit, size) - first;
        if (count == 0) return;
        std::memcpy(static_cast<std::byte*>(to) + first,
                    static_cast<const std::byte*>(from) + first, static_cast<std::size_t>(count));
      });
}

void CpuDevice::zero(float* values, std::int64_t count) {
  share_out(workers_.get(), count, [&](int, std::int64_t begin, std::int64_t end) {
    std::fill(values + begin, values + end, 0.0F);
  });
}

void CpuDevice::add(float* to, const float* from, std::int64_t count) {
  share_out(workers_.get(), count, [&](int, std::int64_t begin, std::int64_t end) {
    cpu::add_all(to + begin, from + begin, end - begin);
  });
}

void CpuDevice::add_through(std::span<float* const> sums, const float* leaf, std::int64_t count) {
  share_out(workers_.get(), count, [&](int, std::int64_t begin, std::int64_t end) {
    std::array<std::byte*, 64> parts;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      parts[i] = reinterpret_cast<std::byte*>(sums[i] + begin);
    }
    const std::span leaf_part(leaf + begin, static_cast<std::size_t>(end - begin));
    collectives::add_through({parts.data(), sums.size()}, std::as_bytes(leaf_part),
                             DType::kFloat32);
  });
}

void CpuDevice::narrow(void* to, DType type, const float* from, std::int64_t count) {
  share_out(workers_.get(), count, [&](int, std::int64_t begin, std::int64_t end) {
    if (type == DType::kBFloat16) {
      cpu::narrow_all(static_cast<BFloat16*>(to) + begin, from + begin, end - begin);
    } else {
      cpu::narrow_all(static_cast<Float16*>(to) + begin, from + begin, end - begin);
    }
  });
}

void CpuDevice::add_values(ExactSum& sum, const double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum.add(values[i]);
}

void CpuDevice::add_squares(ExactSum& sum, const float* values, std::int64_t count) {
  std::fill(of_threads_.begin(), of_threads_.end(), ExactSum());
  share_out(workers_.get(), count, [&](int worker, std::int64_t begin, std::int64_t end) {
    of_threads_[static_cast<std::size_t>(worker)].add_squares(
        {values + begin, static_cast<std::size_t>(end - begin)});
  });
  for (const ExactSum& of_thread : of_threads_) sum.add(of_thread);
}

std::int64_t CpuDevice::first_non_finite(const float* values, std::int64_t count) {
  return cpu::first_non_finite(values, count);
}

void CpuDevice::adamw_step(std::span<float> weights, std::span<const float> gradients,
                           std::span<float> m, std::span<float> v, std::int64_t step,
                           const AdamwOptions& options, const StoredWeights& stored) {
  share_out(workers_.get(), length(weights), [&](int, std::int64_t begin, std::int64_t end) {
    engine::adamw_step(part_of(weights, begin, end), part_of(gradients, begin, end),
                       part_of(m, begin, end), part_of(v, begin, end), step, options);
  });
  if (stored.data != nullptr) narrow(stored.data, stored.type, weights.data(), length(weights));
}

void CpuDevice::sgd_step(std::span<float> weights, std::span<const float> gradients,
                         std::span<float> velocity, const SgdOptions& options,
                         const StoredWeights& stored) {
  share_out(workers_.get(), length(weights), [&](int, std::int64_t begin, std::int64_t end) {
    const std::span<float> kept = velocity.empty() ? velocity : part_of(velocity, begin, end);
    engine::sgd_step(part_of(weights, begin, end), part_of(gradients, begin, end), kept, options);
  });
  if (stored.data != nullptr) narrow(stored.data, stored.type, weights.data(), length(weights));
}

void CpuDevice::ema_step(std::span<float> average, std::span<const float> weights, float decay) {
  share_out(workers_.get(), length(weights), [&](int, std::int64_t begin, std::int64_t end) {
    engine::ema_step(part_of(average, begin, end), part_of(weights, begin, end), decay);
  });
}

}  // namespace nqd::engine
