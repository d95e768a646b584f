// Matrix products by cuBLASLt, with what precedes or follows them in a layer fused in.
//
// The library is opened when the first object is made, so that a program that holds this code
// starts on a machine without it.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/cuda/handles.h"
#include "engine/gemm/fixed/fixed_gemm.h"

namespace nqd::engine::cuda {

// What is done to the result of a product C [m, n] before it is stored, or taken from it. Vectors
// and `aux` have C's type; `aux` is [m, n] with rows `aux_stride` elements apart.
struct GemmEpilogue {
  enum class Kind : unsigned char {
    kNone,
    kBias,                      // C += bias [n]
    kGelu,                      // aux = C; C = gelu(C)
    kGeluBias,                  // aux = C + bias; C = gelu(aux)
    kGeluBackward,              // C = C · gelu'(aux)
    kGeluBackwardBiasGradient,  // the same; vector [n] = sums of C's columns
    kBiasGradientOfA,           // vector [m] = sums over k of op(A)
    kBiasGradientOfB,           // vector [n] = sums over k of op(B)
  };
  Kind kind = Kind::kNone;
  void* vector = nullptr;  // the bias, read; or its gradient, overwritten
  void* aux = nullptr;
  std::int64_t aux_stride = 0;
  // [m, n] of C's type, rows as far apart as C's: added to the product in the place of C, before
  // all else. May be C. Null: nothing, or C where the product accumulates.
  const void* addend = nullptr;
};

enum class Float32Products : bool { kExact, kTf32 };

// The products of one rank on one device. One thread at a time calls an object.
class CudaGemm {
 public:
  // `workspace` is device memory that products on any of the streams use, so that they must be
  // ordered; 32 MiB is what the library's authors advise for sm_90. Throws NQD3061 when the library
  // cannot be loaded, NQD4060 when it cannot start.
  CudaGemm(void* workspace, std::size_t workspace_bytes,
           Float32Products float32 = Float32Products::kExact);
  ~CudaGemm();
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  // Whether run() takes operands of these types: A and B of one type, C of that type or float32.
  static bool takes(const FixedProduct& product);

  // C = alpha · op(A) · op(B), plus C where it accumulates, then the epilogue; sums in float32 in
  // an order that the library chooses, the same for equal shapes on equal devices. Slices are
  // ignored. Alpha is applied to the sum. The choice of algorithm is made once a shape, type and
  // alignment. Throws NQD4060 with the library's status.
  void run(StreamHandle stream, const FixedProduct& product, const GemmEpilogue& epilogue = {});
  // The same; false where the library has no algorithm for this product with this epilogue, and
  // nothing was done.
  bool try_run(StreamHandle stream, const FixedProduct& product, const GemmEpilogue& epilogue);

  // Shapes that an algorithm was looked for.
  std::size_t cached_choices() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nqd::engine::cuda
