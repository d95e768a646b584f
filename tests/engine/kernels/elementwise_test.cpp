// Rotary embedding, activations, the epilogue of a product, and conversions.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/cpu/activations.h"
#include "engine/cpu/convert.h"
#include "engine/cpu/epilogue.h"
#include "engine/cpu/rotary.h"
#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

}  // namespace

TEST_CASE("rotary embedding turns pairs by position, and its backward is the inverse") {
  const RotaryShape shape{.rows = 6, .sequence = 3, .heads = 2, .head_width = 4, .stride = 11};
  Values cosines(6), sines(6);
  const Values frequencies = {1.0, 0.3};
  rotary_table(cosines.data(), sines.data(), 3, std::span<const double>(frequencies));
  const Values before = random_values(66, 1);
  Values x = before;
  rotary_forward(x.data(), cosines.data(), sines.data(), shape);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < 2; ++i) {
        const double angle = static_cast<double>(row % 3) * frequencies[i];
        const std::size_t at = row * 11 + head * 4 + i;
        CHECK(x[at] ==
              doctest::Approx(before[at] * std::cos(angle) - before[at + 2] * std::sin(angle)));
        CHECK(x[at + 2] ==
              doctest::Approx(before[at + 2] * std::cos(angle) + before[at] * std::sin(angle)));
      }
    }
    for (std::size_t c = 8; c < 11; ++c) CHECK(x[row * 11 + c] == before[row * 11 + c]);
  }
  rotary_backward(x.data(), cosines.data(), sines.data(), shape);
  CHECK(largest_difference(x, before) < 1e-15);
}

TEST_CASE("gelu and SwiGLU: gradients by finite differences, in place too") {
  Values x = random_values(40, 1, 3.0);
  const Values d_out = random_values(40, 2);
  Values y(40), dx(40);
  gelu_backward(dx.data(), d_out.data(), x.data(), 40);
  check_gradient(x, dx, [&] {
    gelu(y.data(), x.data(), 40);
    return dot(d_out, y);
  });
  Values over = d_out;
  gelu_backward(over.data(), over.data(), x.data(), 40);
  CHECK(over == dx);

  const Values d_half(d_out.begin(), d_out.begin() + 20);
  Values half(20);
  swiglu_backward(dx.data(), d_half.data(), x.data(), 4, 5);
  check_gradient(x, dx, [&] {
    swiglu(half.data(), x.data(), 4, 5);
    return dot(d_half, half);
  });
  swiglu(half.data(), x.data(), 4, 5);
  CHECK(half[6] == doctest::Approx(x[11] / (1 + std::exp(-x[11])) * x[16]));
  Values over_x = x;
  swiglu_backward(over_x.data(), d_half.data(), over_x.data(), 4, 5);
  CHECK(over_x == dx);
}

TEST_CASE_TEMPLATE("an activation's bits do not depend on an element's place", S, float, BFloat16) {
  const std::size_t n = 530;
  const auto x = random_stored<S>(2 * n, 1, 4.0), dy = random_stored<S>(n, 2);
  std::vector<S> whole(n), gradient(n), gated(n);
  gelu(whole.data(), x.data(), 530);
  gelu_backward(gradient.data(), dy.data(), x.data(), 530);
  swiglu(gated.data(), x.data(), 1, 530);
  for (std::size_t i = 0; i < n; ++i) {
    S one{};
    gelu(&one, &x[i], 1);
    REQUIRE(same_bits<S>({&one, 1}, {&whole[i], 1}));
    gelu_backward(&one, &dy[i], &x[i], 1);
    REQUIRE(same_bits<S>({&one, 1}, {&gradient[i], 1}));
    const S pair[2] = {x[i], x[n + i]};
    swiglu(&one, pair, 1, 1);
    REQUIRE(same_bits<S>({&one, 1}, {&gated[i], 1}));
  }
}

TEST_CASE("the epilogue adds bias, drops and adds the residual, in this order") {
  const std::int64_t rows = 3, width = 300;
  const auto product = random_stored<float>(900, 1), bias = random_stored<float>(300, 2);
  const auto residual = random_stored<float>(900, 3);
  const Dropout dropout{.rate = 0.5, .seed = 3, .step = 1, .site = DropoutSite::kMlpOutput};
  std::vector<float> factors(900), out(900), over_product = product, over_residual = residual;
  dropout_factors(factors.data(), dropout, 7 * width, 900);
  const auto run = [&](float* to, const float* from, const float* past) {
    bias_dropout_residual(to, from, bias.data(), past, rows, width, &dropout, 7);
  };
  run(out.data(), product.data(), residual.data());
  run(over_product.data(), over_product.data(), residual.data());
  run(over_residual.data(), product.data(), over_residual.data());
  for (std::size_t i = 0; i < 900; ++i) {
    REQUIRE(out[i] == residual[i] + (product[i] + bias[i % 300]) * factors[i]);
  }
  CHECK(same_bits(over_product, out));
  CHECK(same_bits(over_residual, out));

  std::vector<BFloat16> plain(900);
  bias_dropout_residual(plain.data(), product.data(), static_cast<BFloat16*>(nullptr),
                        static_cast<BFloat16*>(nullptr), rows, width, nullptr, 0);
  for (std::size_t i = 0; i < 900; ++i) REQUIRE(plain[i].bits == to_bfloat16(product[i]).bits);
}

TEST_CASE("conversions are those of base/dtype.h: every half, and floats around every rounding") {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto pattern = static_cast<std::uint16_t>(i);
    REQUIRE(bits_of(widen(Float16{pattern})) == bits_of(to_float(Float16{pattern})));
    REQUIRE(bits_of(widen(BFloat16{pattern})) == bits_of(to_float(BFloat16{pattern})));
    // The value, the midpoint to the next one, and their neighbours.
    for (const std::uint32_t low : {0x0U, 0x1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float value = std::bit_cast<float>(i << 16 | low);
      REQUIRE(narrow<BFloat16>(value).bits == to_bfloat16(value).bits);
    }
    const std::uint32_t half = bits_of(to_float(Float16{pattern}));
    for (const std::uint32_t low : {0x0U, 0x1U, 0xfffU, 0x1000U, 0x1001U, 0x1fffU}) {
      const float value = std::bit_cast<float>(half | low);
      REQUIRE(narrow<Float16>(value).bits == to_float16(value).bits);
    }
  }
  for (std::uint64_t i = 0; i <= 0xffffffffU; i += 9973) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    REQUIRE(narrow<Float16>(value).bits == to_float16(value).bits);
  }
}

TEST_CASE_TEMPLATE("arrays convert, add, and name their first bad element", S, BFloat16, Float16) {
  const auto x = random_stored<float>(77, 1);
  std::vector<S> stored(77);
  std::vector<float> back(77), sum(77, 1.0F);
  narrow_all(stored.data(), x.data(), 77);
  widen_all(back.data(), stored.data(), 77);
  add_all(sum.data(), stored.data(), 77);
  scale_all(sum.data(), 2.0F, 77);
  for (std::size_t i = 0; i < 77; ++i) {
    CHECK(back[i] == widen(narrow<S>(x[i])));
    CHECK(sum[i] == 2.0F * (1.0F + back[i]));
  }
  CHECK(first_non_finite(stored.data(), 77) == -1);
  stored[70] = narrow<S>(std::numeric_limits<float>::quiet_NaN());
  stored[71] = narrow<S>(std::numeric_limits<float>::infinity());
  CHECK(first_non_finite(stored.data(), 77) == 70);
  CHECK(first_non_finite(stored.data() + 71, 6) == 0);
}

}  // namespace nqd::engine::cpu
