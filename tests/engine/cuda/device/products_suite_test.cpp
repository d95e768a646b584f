// Products, attention and cross-entropy on a device, against their CPU counterparts.
#include <doctest/doctest.h>

#include <cstring>

#include "engine/cpu/activations.h"
#include "engine/cpu/blocked_attention.h"
#include "engine/cuda/cudnn/fused_attention.h"
#include "engine/cuda/device.h"
#include "engine/cuda/gemm.h"
#include "engine/cuda/kernels/attention.h"
#include "engine/cuda/kernels/cross_entropy.h"
#include "engine/cuda/kernels/fixed_product.h"
#include "engine/device/products.h"
#include "tests/engine/cuda/close.h"
#include "tests/engine/cuda/device/gpu_array.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

constexpr std::int64_t kM = 200, kN = 136, kK = 96;
constexpr std::size_t kWorkspace = std::size_t{32} << 20;

template <typename S>
DType dtype() {
  return std::is_same_v<S, float>      ? DType::kFloat32
         : std::is_same_v<S, BFloat16> ? DType::kBFloat16
                                       : DType::kFloat16;
}

// op(A) · op(B) of one pair of transpositions, on the host and on the device.
template <typename S>
struct Product {
  explicit Product(int mask)
      : a_op((mask & 1) != 0 ? Transpose::kYes : Transpose::kNo),
        b_op((mask & 2) != 0 ? Transpose::kYes : Transpose::kNo),
        a(random_stored<S>(index(kM * kK), 1)),
        b(random_stored<S>(index(kK * kN), 2)),
        gpu_a(a),
        gpu_b(b) {}

  FixedProduct of(const S* a_at, const S* b_at, void* c, DType type) const {
    return {.m = kM,
            .n = kN,
            .k = kK,
            .a = {a_at, a_op == Transpose::kYes ? kM : kK, a_op, dtype<S>()},
            .b = {b_at, b_op == Transpose::kYes ? kK : kN, b_op, dtype<S>()},
            .c = {c, kN, type}};
  }
  std::vector<float> on_cpu() const {
    std::vector<float> c(index(kM * kN));
    FixedGemm(nullptr).run(of(a.data(), b.data(), c.data(), DType::kFloat32));
    return c;
  }

  Transpose a_op, b_op;
  std::vector<S> a, b;
  GpuArray<S> gpu_a, gpu_b;
};

TEST_CASE_TEMPLATE("canonical products, to the bit", S, float, BFloat16, Float16) {
  for (int mask = 0; mask < 4; ++mask) {
    Product<S> product(mask);
    GpuArray<float> c(index(kM * kN));
    fixed_product(test_stream(), TermsProduct::of(product.of(product.gpu_a, product.gpu_b, c.data(),
                                                             DType::kFloat32)));
    CHECK(same_bits(c.values(), product.on_cpu()));
  }
}

TEST_CASE_TEMPLATE("products of cuBLASLt, and one choice a shape", S, float, BFloat16, Float16) {
  const CudaProductLibrary library = cuda_product_library();
  if (library.version.empty()) {
    MESSAGE("not run: ", library.reason);
    return;
  }
  GpuArray<std::byte> workspace(kWorkspace);
  CudaGemm gemm(workspace.data(), kWorkspace);
  for (int mask = 0; mask < 4; ++mask) {
    Product<S> product(mask);
    GpuArray<float> c(index(kM * kN));
    FixedProduct p = product.of(product.gpu_a, product.gpu_b, c.data(), DType::kFloat32);
    gemm.run(test_stream(), p);
    check_close<float>(c.values(), product.on_cpu(), 64);
    p.accumulate = true;
    gemm.run(test_stream(), p);
    gemm.run(test_stream(), p);
    auto thrice = product.on_cpu();
    for (float& value : thrice) value *= 3;
    check_close<float>(c.values(), thrice, 192);
    CHECK(gemm.cached_choices() == static_cast<std::size_t>(2 * mask + 2));
  }
}

TEST_CASE_TEMPLATE("what is fused into a product", S, BFloat16, Float16) {
  if (cuda_product_library().version.empty()) return;
  GpuArray<std::byte> workspace(kWorkspace);
  CudaGemm gemm(workspace.data(), kWorkspace);
  Product<S> product(0);
  const auto bias = random_stored<S>(index(kN), 3);
  GpuArray<S> gpu_bias(bias), c(index(kM * kN)), aux(index(kM * kN)), sums(index(kN));
  const FixedProduct p = product.of(product.gpu_a, product.gpu_b, c.data(), dtype<S>());
  gemm.run(test_stream(), p, {GemmEpilogue::Kind::kGeluBias, gpu_bias.data(), aux.data(), kN});
  const auto plain = product.on_cpu();
  std::vector<S> before(plain.size()), after(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    before[i] = cpu::narrow<S>(plain[i] + cpu::widen(bias[i % index(kN)]));
  }
  cpu::gelu(after.data(), before.data(), kM * kN);
  check_close<S>(aux.values(), before, 4);
  check_close<S>(c.values(), after, 4);

  gemm.run(test_stream(), p,
           {GemmEpilogue::Kind::kGeluBackwardBiasGradient, sums.data(), aux.data(), kN});
  std::vector<S> d(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) d[i] = cpu::narrow<S>(plain[i]);
  const auto x = aux.values();
  cpu::gelu_backward(d.data(), d.data(), x.data(), kM * kN);
  check_close<S>(c.values(), d, 4);
  std::vector<float> of_columns(index(kN));
  for (std::size_t i = 0; i < d.size(); ++i) of_columns[i % index(kN)] += cpu::widen(d[i]);
  std::vector<float> gpu_sums;
  for (const S& value : sums.values()) gpu_sums.push_back(cpu::widen(value));
  check_close<S>(gpu_sums, of_columns, 8);

  // An addend in the place of C, and sums over k beside a float32 result that is added to.
  const auto past = random_stored<S>(index(kM * kN), 4);
  GpuArray<S> gpu_past(past);
  gemm.run(
      test_stream(), p,
      {.kind = GemmEpilogue::Kind::kBias, .vector = gpu_bias.data(), .addend = gpu_past.data()});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    after[i] = cpu::narrow<S>(plain[i] + cpu::widen(bias[i % index(kN)]) + cpu::widen(past[i]));
  }
  check_close<S>(c.values(), after, 4);
  Product<S> transposed(1);
  GpuArray<float> wide(index(kM * kN)), of_rows(index(kM));
  FixedProduct to_wide =
      transposed.of(transposed.gpu_a, transposed.gpu_b, wide.data(), DType::kFloat32);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(gemm.try_run(test_stream(), to_wide,
                         {.kind = GemmEpilogue::Kind::kBiasGradientOfA, .vector = of_rows.data()}));
    to_wide.accumulate = true;
  }
  auto twice = transposed.on_cpu();
  for (float& value : twice) value *= 2;
  check_close<float>(wide.values(), twice, 128);
  std::vector<float> expected_rows(index(kM));
  for (std::size_t i = 0; i < index(kM * kK); ++i) {
    expected_rows[i % index(kM)] += cpu::widen(transposed.a[i]);  // stored [k, m]
  }
  check_close<float>(of_rows.values(), expected_rows, 256);
}

TEST_CASE("a matrix beside a GELU that is no whole packs wide is refused, not misread") {
  if (cuda_product_library().version.empty()) return;
  GpuArray<std::byte> workspace(kWorkspace);
  CudaGemm gemm(workspace.data(), kWorkspace);
  Product<BFloat16> product(0);
  GpuArray<BFloat16> c(index(kM * kN)), aux(index(kM * (kN + 1)));
  const FixedProduct p = product.of(product.gpu_a, product.gpu_b, c.data(), DType::kBFloat16);
  CHECK_FALSE(
      gemm.try_run(test_stream(), p,
                   {.kind = GemmEpilogue::Kind::kGelu, .aux = aux.data(), .aux_stride = kN + 1}));
}

TEST_CASE_TEMPLATE("attention, forward and backward", S, float, BFloat16, Float16) {
  const cpu::AttentionDropout dropout{{0.1, 5, 2, 1, cpu::DropoutSite::kAttention}, 0, 0, 4};
  for (const std::int64_t width : {64, 80, 160}) {
    for (const cpu::AttentionDropout* drop :
         {static_cast<const cpu::AttentionDropout*>(nullptr), &dropout}) {
      const auto at = cpu::packed_attention(2, 150, 4, 2, width, true);
      const std::int64_t k = 4 * width, v = 6 * width;
      const auto qkv = random_stored<S>(index(300 * at.q_stride), 1);
      const auto d_out = random_stored<S>(index(300 * at.out_stride), 2);
      std::vector<S> out(d_out.size()), d(qkv.size());
      std::vector<float> lse(1200), scratch(index(cpu::attention_backward_scratch(at)));
      const S* in = qkv.data();
      cpu::blocked_attention_forward(out.data(), lse.data(), in, in + k, in + v, at,
                                     {0, at.kv_items()}, drop, scratch.data());
      GpuArray<S> gqkv(qkv), gd_out(d_out), gout(out.size()), gd(d.size());
      GpuArray<float> glse(lse.size()), inner(index(cuda::attention_backward_scratch(at)));
      attention_forward<S>(test_stream(), gout, glse, gqkv, gqkv + k, gqkv + v, at, drop);
      check_close<S>(gout.values(), out, 8);
      check_close<float>(glse.values(), lse, 64);
      cpu::blocked_attention_backward(d.data(), d.data() + k, d.data() + v, d_out.data(),
                                      out.data(), lse.data(), in, in + k, in + v, at,
                                      {0, at.kv_items()}, drop, scratch.data());
      GpuArray<S> same_out(out);
      GpuArray<float> same_lse(lse);
      attention_backward<S>(test_stream(), gd, gd + k, gd + v, gd_out, same_out, same_lse, gqkv,
                            gqkv + k, gqkv + v, at, drop, inner);
      check_close<S>(gd.values(), d, 32);
    }
  }
}

TEST_CASE_TEMPLATE("attention of a library, the same twice", S, BFloat16, Float16) {
  GpuArray<std::byte> workspace(std::size_t{256} << 20);
  const auto library = make_fused_attention(test_stream(), [&](std::int64_t bytes) {
    REQUIRE(bytes <= std::int64_t{256} << 20);
    return workspace.data();
  });
  if (library == nullptr) {
    MESSAGE("not run: ", fused_attention_status().reason);
    return;
  }
  for (const std::int64_t width : {64, 128}) {
    for (const bool causal : {true, false}) {
      CAPTURE(width);
      const auto at = cpu::packed_attention(2, 320, 4, 2, width, causal);
      const std::int64_t k = 4 * width, v = 6 * width;
      const auto qkv = random_stored<S>(index(640 * at.q_stride), 1);
      const auto d_out = random_stored<S>(index(640 * at.out_stride), 2);
      std::vector<S> out(d_out.size()), d(qkv.size());
      std::vector<float> lse(2560), scratch(index(cpu::attention_backward_scratch(at)));
      const S* in = qkv.data();
      cpu::blocked_attention_forward(out.data(), lse.data(), in, in + k, in + v, at,
                                     {0, at.kv_items()}, nullptr, scratch.data());
      cpu::blocked_attention_backward(d.data(), d.data() + k, d.data() + v, d_out.data(),
                                      out.data(), lse.data(), in, in + k, in + v, at,
                                      {0, at.kv_items()}, nullptr, scratch.data());
      GpuArray<S> gqkv(qkv), gd_out(d_out), gout(out.size()), same_out(out), gd(d.size()),
          again(d.size());
      GpuArray<float> glse(lse.size()), same_lse(lse);
      AttentionOperands operands{type_of<S>(),    at,          gqkv.data(), gqkv.data() + k,
                                 gqkv.data() + v, gout.data(), glse.data()};
      REQUIRE(library->forward(operands));
      check_close<S>(gout.values(), out, 8);
      check_close<float>(glse.values(), lse, 1024);
      operands.out = same_out.data();
      operands.lse = same_lse.data();
      for (GpuArray<S>* to : {&gd, &again}) {
        REQUIRE(library->backward(operands,
                                  {gd_out.data(), to->data(), to->data() + k, to->data() + v}));
      }
      check_close<S>(gd.values(), d, 32);
      CHECK(same_bits(gd.values(), again.values()));
    }
  }
}

TEST_CASE_TEMPLATE("cross-entropy", S, float, BFloat16, Float16) {
  for (const std::int64_t width : {8192, 5001}) {
    const cpu::LogitsShape shape{37, 2 * width, 2 * width - 9, 0, width, 2};
    const auto logits = random_stored<S>(index(37 * shape.stride), 1, 5.0);
    std::vector<std::int32_t> targets(37);
    for (int i = 0; i < 37; ++i) targets[index(i)] = i % 5 == 0 ? -1 : i * 211;
    std::vector<float> maximum(37), sum(37), at_target(37);
    std::vector<double> loss(37);
    auto gradient = logits;
    cpu::cross_entropy_maximum(maximum.data(), logits.data(), shape);
    cpu::cross_entropy_sums(sum.data(), at_target.data(), logits.data(), targets.data(),
                            maximum.data(), shape);
    cpu::cross_entropy_losses(loss.data(), maximum.data(), sum.data(), at_target.data(),
                              targets.data(), 37);
    cpu::cross_entropy_backward(gradient.data(), targets.data(), maximum.data(), sum.data(), 0.5F,
                                shape);
    GpuArray<S> glogits(logits);
    GpuArray<std::int32_t> gtargets(targets);
    GpuArray<float> gmaximum(37), gsum(37), gtarget(37);
    GpuArray<double> gloss(37);
    cross_entropy_maximum<S>(test_stream(), gmaximum, glogits, shape);
    cross_entropy_sums<S>(test_stream(), gsum, gtarget, glogits, gtargets, gmaximum, shape);
    cross_entropy_losses(test_stream(), gloss, gmaximum, gsum, gtarget, gtargets, 37);
    cross_entropy_backward<S>(test_stream(), glogits, gtargets, gmaximum, gsum, 0.5F, shape);
    CHECK(same_bits(gmaximum.values(), maximum));
    CHECK(same_bits(gtarget.values(), at_target));
    check_close<float>(gsum.values(), sum, 256);
    CHECK(largest_difference(gloss.values(), loss) < 1e-5);
    check_close<S>(glogits.values(), gradient, 8);
  }
}

TEST_CASE_TEMPLATE("cross-entropy of logits in one pass, and their narrow gradient", S, BFloat16,
                   Float16) {
  for (const std::int64_t stride : {16384, 5001}) {
    const cpu::LogitsShape shape{37, stride, stride - 9, 0, stride - 9, 1};
    const auto logits = random_stored<float>(index(37 * stride), 1, 5.0);
    std::vector<std::int32_t> targets(37);
    for (int i = 0; i < 37; ++i) targets[index(i)] = i % 5 == 0 ? -1 : i * 111;
    std::vector<float> maximum(37), sum(37), at_target(37);
    cpu::cross_entropy_statistics(maximum.data(), sum.data(), at_target.data(), logits.data(),
                                  targets.data(), shape);
    auto place = logits;
    cpu::cross_entropy_backward_narrow<S>(place.data(), targets.data(), maximum.data(), sum.data(),
                                          0.5F, shape);
    GpuArray<float> glogits(logits), gmaximum(37), gsum(37), gtarget(37);
    GpuArray<std::int32_t> gtargets(targets);
    cross_entropy_statistics<float>(test_stream(), gmaximum, gsum, gtarget, glogits, gtargets,
                                    shape);
    CHECK(same_bits(gmaximum.values(), maximum));
    CHECK(same_bits(gtarget.values(), at_target));
    check_close<float>(gsum.values(), sum, 256);
    cross_entropy_backward_narrow<S>(test_stream(), glogits, gtargets, gmaximum, gsum, 0.5F, shape);
    const auto own = glogits.values();
    std::vector<S> gradient(index(37 * stride)), expected(gradient.size());
    for (std::int64_t row = 0; row < 37; ++row) {
      const std::size_t bytes = index(stride) * sizeof(S);
      std::memcpy(static_cast<void*>(gradient.data() + row * stride), own.data() + row * stride,
                  bytes);
      std::memcpy(static_cast<void*>(expected.data() + row * stride), place.data() + row * stride,
                  bytes);
    }
    check_close<S>(gradient, expected, 8);
  }
}

}  // namespace
}  // namespace nqd::engine::cuda
