// The kernels for any CPU. std::fma is exact everywhere, and a call a step where the compiler may
// not assume the instruction.
#include <cmath>

#include "engine/gemm/fixed/kernels.h"
#include "engine/gemm/fixed/tile_kernel.h"

namespace nqd::engine::fixed {
namespace {

struct Vector {
  static constexpr int kLanes = 8;
  struct Type {
    float lane[kLanes];
  };
  template <typename F>
  static Type each(F f) {
    Type result;
    for (int i = 0; i < kLanes; ++i) result.lane[i] = f(i);
    return result;
  }
  static Type zero() {
    return each([](int) { return 0.0F; });
  }
  static Type load(const float* p) {
    return each([p](int i) { return p[i]; });
  }
  static Type broadcast(const float* p) {
    return each([p](int) { return *p; });
  }
  static void store(float* p, const Type& value) {
    for (int i = 0; i < kLanes; ++i) p[i] = value.lane[i];
  }
  static Type add(const Type& a, const Type& b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Type multiply_add(const Type& a, const Type& b, const Type& c) {
    return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
};

float widen(float value) { return value; }
float widen(BFloat16 value) { return to_float(value); }
float widen(Float16 value) { return to_float(value); }

template <typename T>
void pack_items(const Packing& p) {
  const T* const in = static_cast<const T*>(p.in);
  const std::int64_t step_stride = p.k_is_contiguous ? 1 : p.stride;
  const std::int64_t item_stride = p.k_is_contiguous ? p.stride : 1;
  float* out = p.out;
  for (std::int64_t first = 0; first < p.count; first += p.width) {
    for (std::int64_t step = 0; step < p.k; ++step) {
      for (std::int64_t i = first; i < first + p.width; ++i) {
        *out++ = i < p.count ? p.alpha * widen(in[step * step_stride + i * item_stride]) : 0.0F;
      }
    }
  }
}

void pack(const Packing& packing) {
  if (packing.type == DType::kBFloat16) return pack_items<BFloat16>(packing);
  if (packing.type == DType::kFloat16) return pack_items<Float16>(packing);
  pack_items<float>(packing);
}

constexpr int kRows = 4;
constexpr int kVectors = 2;

}  // namespace

const KernelSet& portable_kernels() {
  static constexpr KernelSet kSet = {"portable",
                                     "portable 4x16",
                                     kRows,
                                     Vector::kLanes,
                                     kVectors,
                                     false,
                                     TileTable<Vector, kRows, kVectors>::kTiles.data(),
                                     pack};
  return kSet;
}

}  // namespace nqd::engine::fixed
