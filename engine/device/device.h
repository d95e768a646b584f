// Where the tensors of a rank lie, and who works on them. Everything above this line (models,
// stores, the update, the step) says which operation comes when, and never touches an element.
//
// Order. Operations run in the order of their calls, and may run later than the call returns. What
// they are given by pointer has to be as it is until then; what they are given by value, or as
// `from` of upload(), need not. So the host may ask for a whole step ahead of the device.
//
// The host may use device memory only through upload(), download(), host_view() and the operations
// that return something, which all wait for what was asked before; what it adds up, add_values()
// and add_squares(), arrives by collect(). Messages between ranks are outside of the order:
// before_message() before one starts that reads or writes device memory, and no operation on that
// memory until the communicator's call, or the wait for it, has returned.
//
// Pointers are to device memory unless a comment says host. One thread at a time calls an object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/ledger.h"
#include "collectives/device/device_api.h"
#include "engine/device/kernels.h"
#include "engine/device/products.h"
#include "engine/device/uncounted_memory.h"
#include "engine/numerics/exact_sum.h"
#include "engine/optimizer/adamw.h"
#include "engine/optimizer/sgd.h"

namespace nqd::engine {

// A zero-filled block, aligned to 64 bytes or more, from construction to destruction.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  std::byte* data() const { return data_; }

 protected:
  explicit DeviceMemory(std::byte* data) : data_(data) {}

 private:
  std::byte* data_;
};

// Whether collectives find the block faster than any other (collectives/shared/shared_buffer.h).
enum class Reach : bool { kOwn, kShared };

// Names a part of a step that comes again in every step, for Device::repeat.
struct Repetition {
  std::int64_t part = 0;  // its place in the step
  // What the host passes to its operations that may be another next time. Memory that `part` alone
  // decides on, and what lies in it, need not be here.
  std::array<std::int64_t, 4> varying{};
  bool operator==(const Repetition&) const = default;
};

// Where an update leaves the weights rounded to nearest even, beside their float32 master; null:
// nowhere. `type` is kBFloat16 or kFloat16.
struct StoredWeights {
  void* data = nullptr;
  DType type = DType::kBFloat16;
};

// What communicators that are ordered with a device do for it.
struct MessageHooks {
  // Called every few milliseconds while the device is waited for, which may then wait for a rank
  // that never comes; what it throws ends the wait.
  std::function<void()> look;
  // Memory that messages go through best, of at least a megabyte; null where there is none. Given
  // back before the device goes.
  std::function<std::byte*(std::size_t)> allocate;
  std::function<void(std::byte*)> release;
};

class Device {
 public:
  virtual ~Device() = default;

  // The ledger, which must outlive the block, counts `bytes` under `tag` while it lives; null
  // counts nothing. Throws std::bad_alloc where the device has no room.
  virtual std::unique_ptr<DeviceMemory> allocate(MemoryLedger* ledger, MemoryTag tag,
                                                 std::size_t bytes, Reach reach) = 0;

  // Whether the host may use the memory in place, once it is synchronized.
  virtual bool is_host() const = 0;
  // What computes the products of fast or canonical numerics, for the record of a run.
  virtual GemmLibrary product_library(bool canonical) const = 0;
  // What has computed attention so far, where libraries may beside own kernels; else empty.
  virtual std::string attention_library() const { return {}; }

  // The operations of models that store their tensors as S: float, BFloat16 or Float16. Live as
  // long as the device.
  template <typename S>
  Kernels<S>& kernels() {
    return kernels_for(static_cast<S*>(nullptr));
  }
  // `scratch`: planner::product_scratch_elements floats.
  virtual std::unique_ptr<Products> make_products(const SliceShare& share, float* scratch) = 0;

  // `from` in host memory, which may change as soon as the call returns. Waits for nothing but room
  // to keep it.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  // `to` in host memory.
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  // Where the host reads what lies at `data`; valid until the next call or until `data` changes. On
  // a CPU the place itself.
  virtual const std::byte* host_view(const void* data, std::size_t bytes) = 0;
  // Returns when all operations so far are done.
  virtual void synchronize() = 0;
  // Messages that start now are behind all operations so far, and operations asked for later are
  // behind messages that were waited for. Where communicators order their calls by compute_stream()
  // it costs nothing; else it waits.
  virtual void before_message() = 0;
  // Where operations run; null where they are done when their call returns.
  virtual collectives::DeviceStream compute_stream() const { return nullptr; }
  // At most once, before the first allocation.
  virtual void attach(MessageHooks) {}

  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(float* values, std::int64_t count) = 0;
  // to[i] += from[i].
  virtual void add(float* to, const float* from, std::int64_t count) = 0;
  // Adds `leaf` to the first of `sums` (at most 64), that to the second and so on, the sums on the
  // left: the last receives the result, the others are left as they were. Every NaN becomes the
  // machine's (collectives/canonical/accumulator.h).
  virtual void add_through(std::span<float* const> sums, const float* leaf, std::int64_t count) = 0;
  // to[i] = from[i], rounded to nearest even. `type` is kBFloat16 or kFloat16.
  virtual void narrow(void* to, DType type, const float* from, std::int64_t count) = 0;

  // Sums of the host: `sum` has its part by the next collect(), or before, and must live until
  // then. Neither may be asked for within repeat().
  virtual void add_values(ExactSum& sum, const double* values, std::int64_t count) = 0;
  // Σ values². Exact on a CPU; elsewhere to within the rounding of a sum in float64 in a fixed
  // order.
  virtual void add_squares(ExactSum& sum, const float* values, std::int64_t count) = 0;
  // Returns when all sums so far are whole: waits once for all of them.
  virtual void collect() = 0;
  // The index of the first infinity or NaN, or -1. Waits.
  virtual std::int64_t first_non_finite(const float* values, std::int64_t count) = 0;

  // engine/optimizer/adamw.h and sgd.h, in float32.
  virtual void adamw_step(std::span<float> weights, std::span<const float> gradients,
                          std::span<float> m, std::span<float> v, std::int64_t step,
                          const AdamwOptions& options, const StoredWeights& stored) = 0;
  virtual void sgd_step(std::span<float> weights, std::span<const float> gradients,
                        std::span<float> velocity, const SgdOptions& options,
                        const StoredWeights& stored) = 0;
  virtual void ema_step(std::span<float> average, std::span<const float> weights, float decay) = 0;

  // Asks for the operations of body(), which must be the same, with the same arguments, for equal
  // repetitions, and must not wait, upload, collect or allocate. The first call for a part runs
  // body(); a device may keep what it asks for in the second, and asks for it again in later ones
  // without running body(): then it returns false, and the caller has to do whatever else body()
  // would have done. A part whose `varying` differs from the last call's starts anew. The memory
  // that body() uses must live as long as the device.
  virtual bool repeat(const Repetition& which, const std::function<void()>& body) {
    static_cast<void>(which);
    body();
    return true;
  }
  // Whether repeat() ever does without body().
  virtual bool can_repeat() const { return false; }

  // Seconds that calls have waited for the device, all in all; 0 where the host computes.
  virtual double waited_s() const { return 0; }
  virtual UncountedMemory uncounted_memory() const { return {}; }

 private:
  // The argument chooses the overload and is null.
  virtual Kernels<float>& kernels_for(float*) = 0;
  virtual Kernels<BFloat16>& kernels_for(BFloat16*) = 0;
  virtual Kernels<Float16>& kernels_for(Float16*) = 0;
};

}  // namespace nqd::engine
