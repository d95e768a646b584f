#include "engine/cuda/kernels/fixed_product.h"

#include "engine/cuda/kernels/bodies/fixed_product.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

void fixed_product(StreamHandle stream, const TermsProduct& product) {
  bodies::fixed_product(Launch(stream), product);
}

}  // namespace nqd::engine::cuda
