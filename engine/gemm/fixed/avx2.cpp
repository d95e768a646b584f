// The kernels for CPUs with AVX2, FMA and F16C. Compiled for them: see kernels.h.
#include <immintrin.h>

#include "engine/gemm/fixed/kernels.h"
#include "engine/gemm/fixed/tile_kernel.h"
#include "engine/gemm/fixed/x86.h"

namespace nqd::engine::fixed {
namespace {

struct Vector {
  static constexpr int kLanes = 8;
  using Type = __m256;
  static Type zero() { return _mm256_setzero_ps(); }
  static Type load(const float* p) { return _mm256_loadu_ps(p); }
  static Type broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static void store(float* p, Type value) { _mm256_storeu_ps(p, value); }
  static Type add(Type a, Type b) { return _mm256_add_ps(a, b); }
  static Type multiply_add(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
};

constexpr int kRows = 6;
constexpr int kVectors = 2;

}  // namespace

constinit const KernelSet kAvx2Kernels = {"avx2",
                                          "avx2 6x16",
                                          kRows,
                                          Vector::kLanes,
                                          kVectors,
                                          false,
                                          TileTable<Vector, kRows, kVectors>::kTiles.data(),
                                          pack_avx2};

}  // namespace nqd::engine::fixed
