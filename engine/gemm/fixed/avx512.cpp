// The kernels for CPUs with AVX-512F (which all have AVX2, FMA and F16C). Compiled for them: see
// kernels.h.
#include <immintrin.h>

#include "engine/gemm/fixed/kernels.h"
#include "engine/gemm/fixed/tile_kernel.h"
#include "engine/gemm/fixed/x86.h"

namespace nqd::engine::fixed {
namespace {

struct Vector {
  static constexpr int kLanes = 16;
  using Type = __m512;
  static Type zero() { return _mm512_setzero_ps(); }
  static Type load(const float* p) { return _mm512_loadu_ps(p); }
  static Type broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static void store(float* p, Type value) { _mm512_storeu_ps(p, value); }
  static Type add(Type a, Type b) { return _mm512_add_ps(a, b); }
  static Type multiply_add(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
};

// 24 sums, 3 columns and a row in 32 registers; n and m of transformers are multiples of 48 and 8
// more often than of other tiles' sides.
constexpr int kRows = 8;
constexpr int kVectors = 3;

}  // namespace

constinit const KernelSet kAvx512Kernels = {"avx512",
                                            "avx512 8x48",
                                            kRows,
                                            Vector::kLanes,
                                            kVectors,
                                            true,
                                            TileTable<Vector, kRows, kVectors>::kTiles.data(),
                                            pack_avx2};

}  // namespace nqd::engine::fixed
