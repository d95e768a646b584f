// Device memory of tests.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "engine/cuda/device_memory.h"
#include "engine/cuda/streams.h"

namespace nqd::tests {

inline engine::cuda::DevicePool& test_pool() {
  static engine::cuda::DeviceMemory memory;
  static engine::cuda::DevicePool pool(memory, nullptr);
  return pool;
}

// The stream that tests put their work on; no other stream waits for it or for the default one.
inline engine::cuda::StreamHandle test_stream() {
  static const engine::cuda::Stream stream;
  return stream.handle();
}

// `values` on the device, and back when all work is done. `skew`: elements in front of them, which
// moves them off the 16-byte grid.
template <typename T>
class GpuArray {
 public:
  explicit GpuArray(const std::vector<T>& values, std::size_t skew = 0)
      : count_(values.size()),
        skew_(skew),
        buffer_(
            test_pool().allocate(MemoryTag::kWorkspace, (values.size() + skew + 1) * sizeof(T))) {
    engine::cuda::copy_async(test_stream(), data(), values.data(), count_ * sizeof(T));
    engine::cuda::synchronize_device();
  }
  explicit GpuArray(std::size_t count) : GpuArray(std::vector<T>(count)) {}

  T* data() { return buffer_.template as<T>() + skew_; }
  operator T*() { return data(); }

  std::vector<T> values() {
    std::vector<T> out(count_);
    engine::cuda::synchronize_device();
    engine::cuda::copy_async(test_stream(), out.data(), data(), count_ * sizeof(T));
    engine::cuda::synchronize_device();
    return out;
  }

 private:
  std::size_t count_;
  std::size_t skew_;
  engine::cuda::DeviceBuffer buffer_;
};

}  // namespace nqd::tests
