// The canonical product on the host: the bits of the CPU's.
#include <doctest/doctest.h>

#include "engine/cuda/kernels/bodies/fixed_product.h"
#include "tests/engine/cuda/host_block.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

constexpr std::int64_t kM = 70, kN = 67, kK = 53;

template <typename S>
FixedInput input(const std::vector<S>& data, std::int64_t stride, Transpose op) {
  constexpr DType kType = std::is_same_v<S, float>      ? DType::kFloat32
                          : std::is_same_v<S, BFloat16> ? DType::kBFloat16
                                                        : DType::kFloat16;
  return {data.data(), stride, op, kType};
}

std::vector<float> on_cpu(FixedProduct product, const std::vector<float>& c) {
  std::vector<float> out = c;
  product.c.data = out.data();
  FixedGemm(nullptr).run(product);
  return out;
}
std::vector<float> emulated(FixedProduct product, const std::vector<float>& c) {
  return emulate([&](const auto& run) {
    std::vector<float> out = c;
    product.c.data = out.data();
    bodies::fixed_product(run, TermsProduct::of(product));
    return out;
  });
}

TEST_CASE_TEMPLATE("all transpositions, with and without a start", S, float, BFloat16) {
  const std::int64_t stride = 80;
  const auto a = random_stored<S>(index(stride * stride), 1);
  const auto b = random_stored<float>(index(stride * stride), 2);
  const auto c = random_stored<float>(index(kM * stride), 3);
  for (int mask = 0; mask < 8; ++mask) {
    const auto op = [&](int bit) { return (mask & bit) != 0 ? Transpose::kYes : Transpose::kNo; };
    const FixedProduct product{.m = kM,
                               .n = kN,
                               .k = kK,
                               .a = input(a, stride, op(1)),
                               .b = input(b, stride, op(2)),
                               .c = {nullptr, stride, DType::kFloat32},
                               .alpha = 0.3F,
                               .accumulate = (mask & 4) != 0};
    CHECK(same_bits(emulated(product, c), on_cpu(product, c)));
  }
}

TEST_CASE("slices are added in the tree, also by ranks that have some of them") {
  const auto a = random_stored<Float16>(index(kM * kK), 1),
             b = random_stored<Float16>(index(kK * kN), 2);
  const auto c = random_stored<float>(index(kM * kN), 3);
  for (const bool accumulate : {false, true}) {
    for (const KSlices slices : {KSlices{6, 0, 6, 9}, KSlices{8, 4, 8, 14}, KSlices{7, 0, 7, 9}}) {
      const FixedProduct product{.m = kM,
                                 .n = kN,
                                 .k = kK,
                                 .a = input(a, kK, Transpose::kNo),
                                 .b = input(b, kN, Transpose::kNo),
                                 .c = {nullptr, kN, DType::kFloat32},
                                 .accumulate = accumulate,
                                 .slices = slices};
      CHECK(same_bits(emulated(product, c), on_cpu(product, c)));
    }
  }
}

TEST_CASE("several terms are one chain; a half-width result is rounded once") {
  const auto a = random_stored<float>(index(kM * kK), 1),
             b = random_stored<float>(index(kK * kN), 2);
  const FixedProduct whole{.m = kM,
                           .n = kN,
                           .k = kK,
                           .a = input(a, kK, Transpose::kNo),
                           .b = input(b, kN, Transpose::kNo),
                           .c = {nullptr, kN, DType::kFloat32}};
  const auto expected = on_cpu(whole, std::vector<float>(index(kM * kN)));
  const auto halves = emulate([&](const auto& run) {
    std::vector<BFloat16> out(index(kM * kN));
    TermsProduct product = TermsProduct::of(whole);
    product.c = {out.data(), kN, DType::kBFloat16};
    const std::int64_t first = 20;
    product.terms.of[0].width = product.terms.of[0].part = first;
    product.terms.of[1] = {
        {a.data() + first, kK}, {b.data() + first * kN, kN}, kK - first, kK - first};
    product.terms.count = 2;
    bodies::fixed_product(run, product);
    return out;
  });
  for (std::size_t i = 0; i < halves.size(); ++i) {
    REQUIRE(halves[i].bits == to_bfloat16(expected[i]).bits);
  }
  TermsProduct many = TermsProduct::of(whole);
  many.slices = 16;
  CHECK_THROWS_WITH_AS(bodies::fixed_product(Emulation(ThreadOrder::kAscending), many),
                       doctest::Contains("15 slices"), Error);
}

}  // namespace
}  // namespace nqd::engine::cuda
