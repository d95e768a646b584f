// A block of threads on the device, as kernel bodies see it (engine/cuda/kernels/body.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "engine/cuda/kernels/mma.h"

namespace nqd::engine::cuda {

template <int kThreadCount>
class DeviceBlock {
 public:
  static constexpr int kThreads = kThreadCount;
  static constexpr int kWarp = 32;
  static constexpr int kWarps = kThreads / kWarp;
  static_assert(kThreads % kWarp == 0, "a block is whole warps");

  // A thread's own value, in its registers.
  template <typename T>
  struct Own {
    T value;
    __device__ T& operator[](int) { return value; }
  };

  __device__ std::int64_t index() const { return blockIdx.x; }

  template <typename F>
  __device__ void each(const F& phase) {
    phase(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  template <typename F>
  __device__ void last(const F& phase) {
    phase(static_cast<int>(threadIdx.x));
  }

  // Adjacent halves of a warp, then the warps in ascending order: HostBlock's order.
  template <typename T, typename Merge>
  __device__ T reduce(Own<T>& own, const Merge& merge) {
    __shared__ T of_warp[kWarps];
    T value = own.value;
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value = merge(value, __shfl_xor_sync(0xffffffffU, value, distance));
    }
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < kWarps; ++warp) value = merge(value, of_warp[warp]);
    // The next reduction writes the same words.
    __syncthreads();
    return value;
  }

  __device__ void barrier() { __syncthreads(); }

  __device__ void copy_async(void* to, const void* from, int count) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(from), "r"(count)
                 : "memory");
  }
  __device__ void copied() {
    asm volatile("cp.async.wait_all;" : : : "memory");
    __syncthreads();
  }

  // engine/cuda/kernels/mma.h.
  template <typename S, typename F>
  __device__ void mma(const F& operands) {
    const Mma<S> m = operands(static_cast<int>(threadIdx.x));
    if constexpr (std::is_same_v<S, BFloat16>) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(m.c[0]), "+f"(m.c[1]), "+f"(m.c[2]), "+f"(m.c[3])
          : "r"(m.a[0]), "r"(m.a[1]), "r"(m.a[2]), "r"(m.a[3]), "r"(m.b[0]), "r"(m.b[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(m.c[0]), "+f"(m.c[1]), "+f"(m.c[2]), "+f"(m.c[3])
          : "r"(m.a[0]), "r"(m.a[1]), "r"(m.a[2]), "r"(m.a[3]), "r"(m.b[0]), "r"(m.b[1]));
    }
  }

  template <bool kTransposed, typename F>
  __device__ void matrices(Own<Words>& words, const F& row_of) {
    const void* const row = row_of(static_cast<int>(threadIdx.x));
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    std::uint32_t(&w)[4] = words.value.of;
    if constexpr (kTransposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "r"(address)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "r"(address)
                   : "memory");
    }
  }

  template <typename F, typename Merge>
  __device__ void quads(const F& value_of, const Merge& merge) {
    float& value = value_of(static_cast<int>(threadIdx.x));
    value = merge(value, __shfl_xor_sync(0xffffffffU, value, 1));
    value = merge(value, __shfl_xor_sync(0xffffffffU, value, 2));
  }

  // One object in the block's shared memory, not initialised. A body asks for one only.
  template <typename T>
  __device__ T& shared() {
    __shared__ std::aligned_storage_t<sizeof(T), 16> bytes;
    return reinterpret_cast<T&>(bytes);
  }

  static __device__ float widen(float value) { return value; }
  static __device__ float widen(BFloat16 value) {
    return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
  }
  static __device__ float widen(Float16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
  }

  static __device__ std::uint32_t bits_of(float value) { return __float_as_uint(value); }

  // To nearest, ties to even; one instruction since sm_80.
  template <typename S>
  static __device__ S narrow(float value) {
    if constexpr (std::is_same_v<S, float>) {
      return value;
    } else {
      S stored;
      if constexpr (std::is_same_v<S, BFloat16>) {
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(stored.bits) : "f"(value));
      } else {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored.bits) : "f"(value));
      }
      return stored;
    }
  }
};

}  // namespace nqd::engine::cuda
