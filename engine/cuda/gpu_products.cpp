#include "engine/cuda/gpu_products.h"

#include "engine/cuda/kernels/convert.h"
#include "engine/cuda/kernels/fixed_product.h"

namespace nqd::engine::cuda {
namespace {

// `sums` receives those of kRowSums.
GemmEpilogue library_epilogue(const FixedProduct& product, const ProductEpilogue& e, float* sums) {
  using Kind = GemmEpilogue::Kind;
  GemmEpilogue made;
  made.vector = const_cast<void*>(e.bias);  // read alone
  switch (e.kind) {
    case ProductEpilogue::Kind::kResidual:
      made.addend = e.residual;
      [[fallthrough]];
    case ProductEpilogue::Kind::kBias:
      made.kind = e.bias == nullptr ? Kind::kNone : Kind::kBias;
      return made;
    case ProductEpilogue::Kind::kGelu:
      made.kind = e.bias == nullptr ? Kind::kGelu : Kind::kGeluBias;
      break;
    case ProductEpilogue::Kind::kGeluBackward:
      made.kind = Kind::kGeluBackward;
      break;
    case ProductEpilogue::Kind::kRowSums:
      made.kind = Kind::kBiasGradientOfA;
      made.vector = sums;
      return made;
  }
  made.aux = e.before_gelu;
  made.aux_stride = product.c.stride;
  return made;
}

}  // namespace

bool GpuProducts::run_fused(const FixedProduct& product, const ProductEpilogue& epilogue) {
  if (!fuses() || !CudaGemm::takes(product)) return false;
  const bool sums = epilogue.kind == ProductEpilogue::Kind::kRowSums;
  if (sums && product.c.type != DType::kFloat32) return false;
  // The library sets what is to be added to.
  float* const room = sums ? scratch_.of<float>(product.m) : nullptr;
  if (!gemm_->try_run(stream_, product, library_epilogue(product, epilogue, room))) return false;
  if (sums) add_all(stream_, epilogue.row_sums, room, product.m);
  return true;
}

void GpuProducts::run(const FixedProduct& product) {
  if (share_.canonical) return fixed_product(stream_, TermsProduct::of(product));
  if (CudaGemm::takes(product)) return gemm_->run(stream_, product);
  FixedProduct wide = product;
  const bool a_is_plain = product.a.op == Transpose::kNo;
  const bool b_is_plain = product.b.op == Transpose::kNo;
  wide.a =
      widened(product.a, a_is_plain ? product.m : product.k, a_is_plain ? product.k : product.m);
  wide.b =
      widened(product.b, b_is_plain ? product.k : product.n, b_is_plain ? product.n : product.k);
  if (CudaGemm::takes(wide)) return gemm_->run(stream_, wide);
  fixed_product(stream_, TermsProduct::of(product));
}

FixedInput GpuProducts::widened(const FixedInput& x, std::int64_t rows, std::int64_t columns) {
  if (x.type == DType::kFloat32) return x;
  // What lies between the rows is widened with them.
  const std::int64_t count = (rows - 1) * x.stride + columns;
  float* const wide = scratch_.of<float>(count);
  if (x.type == DType::kBFloat16) {
    widen_all(stream_, wide, static_cast<const BFloat16*>(x.data), count);
  } else {
    widen_all(stream_, wide, static_cast<const Float16*>(x.data), count);
  }
  return {wide, x.stride, x.op, DType::kFloat32};
}

void GpuProducts::run_sliced(FixedProduct product, std::int64_t full) {
  product.slices = share_.of(full);
  run(product);
}

void GpuProducts::run_stacked(float* out, std::int64_t m, std::int64_t n,
                              std::span<const StackedBlock> blocks, int tp) {
  if (share_.canonical) {
    TermsProduct product{m, n, result(out, n), 1.0F, false, share_.count, {}};
    for (const StackedBlock& block : blocks) {
      product.terms.of[product.terms.count++] = {block.a, block.b, block.width,
                                                 share_.width(block.width * tp)};
    }
    return fixed_product(stream_, product);
  }
  bool accumulate = false;
  for (const StackedBlock& block : blocks) {
    run({m, n, block.width, block.a, block.b, result(out, n), 1.0F, accumulate});
    accumulate = true;
  }
}

}  // namespace nqd::engine::cuda
