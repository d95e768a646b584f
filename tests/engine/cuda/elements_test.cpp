// Kernels that compute every element by itself, on the host, against their CPU counterparts.
#include <doctest/doctest.h>

#include <limits>

#include "engine/cpu/activations.h"
#include "engine/cpu/convert.h"
#include "engine/cpu/dropout.h"
#include "engine/cpu/epilogue.h"
#include "engine/cuda/kernels/bodies/activations.h"
#include "engine/cuda/kernels/bodies/convert.h"
#include "engine/cuda/kernels/bodies/epilogue.h"
#include "engine/cuda/kernels/bodies/pooling.h"
#include "engine/cuda/kernels/bodies/rotary.h"
#include "tests/engine/cuda/host_block.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

// Widths of whole packs of every storage, and of none.
constexpr std::int64_t kWidths[] = {48, 37};
constexpr std::int64_t kRows = 13;

TEST_CASE_TEMPLATE("activations are the CPU's", S, float, BFloat16) {
  for (const std::int64_t width : kWidths) {
    const std::int64_t n = kRows * width;
    const auto x = random_stored<S>(index(2 * n), 1, 4.0);
    const auto dy = random_stored<S>(index(n), 2);
    std::vector<S> y(index(n)), dx(index(2 * n));

    cpu::gelu(y.data(), x.data(), n);
    check_close<S>(emulate([&](const auto& run) {
                     std::vector<S> out(index(n));
                     bodies::gelu(run, out.data(), x.data(), n);
                     return out;
                   }),
                   y, 8);
    cpu::gelu_backward(y.data(), dy.data(), x.data(), n);
    check_close<S>(emulate([&](const auto& run) {
                     std::vector<S> out = dy;
                     bodies::gelu_backward(run, out.data(), out.data(), x.data(), n);
                     return out;
                   }),
                   y, 8);
    cpu::swiglu(y.data(), x.data(), kRows, width);
    check_close<S>(emulate([&](const auto& run) {
                     std::vector<S> out(index(n));
                     bodies::swiglu(run, out.data(), x.data(), kRows, width);
                     return out;
                   }),
                   y, 8);
    cpu::swiglu_backward(dx.data(), dy.data(), x.data(), kRows, width);
    check_close<S>(emulate([&](const auto& run) {
                     std::vector<S> out = x;
                     bodies::swiglu_backward(run, out.data(), dy.data(), out.data(), kRows, width);
                     return out;
                   }),
                   dx, 8);
  }
}

TEST_CASE_TEMPLATE("a pointer off the 16-byte grid is taken element by element", S, float,
                   BFloat16) {
  const auto x = random_stored<S>(101, 1);
  const auto y = emulate([&](const auto& run) {
    std::vector<S> out(100);
    bodies::gelu(run, out.data(), x.data() + 1, 100);
    return out;
  });
  std::vector<S> expected(100);
  cpu::gelu(expected.data(), x.data() + 1, 100);
  check_close<S>(y, expected, 4);
  CHECK_FALSE(are_aligned(x.data() + 1));
  CHECK(are_aligned(x.data(), static_cast<const S*>(nullptr)));
}

TEST_CASE_TEMPLATE("conversions and sums have the CPU's bits", S, BFloat16, Float16) {
  const std::int64_t n = 1003;
  auto wide = random_stored<float>(index(n), 3, 70000.0);
  wide[5] = -0.0F;
  wide[6] = 1e-7F;
  wide[7] = std::numeric_limits<float>::infinity();
  std::vector<S> low(index(n));
  cpu::narrow_all(low.data(), wide.data(), n);
  CHECK(same_bits(low, emulate([&](const auto& run) {
                    std::vector<S> out(index(n));
                    bodies::narrow_all(run, out.data(), wide.data(), n);
                    return out;
                  })));
  std::vector<float> back(index(n)), sum = wide;
  cpu::widen_all(back.data(), low.data(), n);
  CHECK(same_bits(back, emulate([&](const auto& run) {
                    std::vector<float> out(index(n));
                    bodies::widen_all(run, out.data(), low.data(), n);
                    return out;
                  })));
  cpu::add_all(sum.data(), low.data(), n);
  cpu::scale_all(sum.data(), 0.3F, n);
  CHECK(same_bits(sum, emulate([&](const auto& run) {
                    std::vector<float> out = wide;
                    bodies::add_all(run, out.data(), low.data(), n);
                    bodies::scale_all(run, out.data(), 0.3F, n);
                    return out;
                  })));
}

TEST_CASE("the first number that is not finite is found, wherever it is") {
  // More than one element a thread of the whole grid.
  const std::int64_t n = kNonFiniteScratch * kBlockThreads + 1000;
  std::vector<BFloat16> x(index(n));
  const auto first = [&] {
    return emulate([&](const auto& run) {
      std::vector<std::int64_t> found(1), scratch(index(kNonFiniteScratch));
      bodies::first_non_finite(run, found.data(), x.data(), n, scratch.data());
      return found;
    })[0];
  };
  CHECK(first() == -1);
  x[index(n - 1)] = to_bfloat16(std::numeric_limits<float>::quiet_NaN());
  CHECK(first() == n - 1);
  x[77777] = to_bfloat16(-std::numeric_limits<float>::infinity());
  CHECK(first() == 77777);
}

TEST_CASE("a leaf is added to one sum after the other, and the last one keeps the result") {
  for (const std::int64_t n : {std::int64_t{64}, std::int64_t{13}}) {
    const auto leaf = random_stored<float>(index(n), 1), a = random_stored<float>(index(n), 2),
               b = random_stored<float>(index(n), 3);
    auto first = a;
    const auto last = emulate([&](const auto& run) {
      auto out = b;
      float* const sums[] = {first.data(), out.data()};
      bodies::add_through(run, sums, leaf.data(), n);
      return out;
    });
    CHECK(same_bits(first, a));
    for (std::size_t i = 0; i < index(n); ++i) REQUIRE(last[i] == b[i] + (a[i] + leaf[i]));
  }
}

TEST_CASE_TEMPLATE("means of rows, their gradient and repeated rows have the CPU's bits", S, float,
                   BFloat16) {
  const cpu::PoolingShape shape{3, 7, 20, 24};
  const auto in = random_stored<S>(index(shape.samples * shape.steps * shape.stride), 1);
  std::vector<S> mean(index(shape.samples * shape.stride));
  cpu::mean_rows(mean.data(), in.data(), shape);
  CHECK(same_bits(mean, emulate([&](const auto& run) {
                    std::vector<S> out(mean.size());
                    bodies::mean_rows(run, out.data(), in.data(), shape);
                    return out;
                  })));
  const auto d = random_stored<float>(60, 2);
  std::vector<float> d_in(15 * 20);
  cpu::mean_rows_backward(d_in.data(), d.data(), 4, 15, 7, 20);
  CHECK(same_bits(d_in, emulate([&](const auto& run) {
                    std::vector<float> out(d_in.size());
                    bodies::mean_rows_backward(run, out.data(), d.data(), 4, 15, 7, 20);
                    return out;
                  })));
  const auto rows = emulate([&](const auto& run) {
    std::vector<float> out(3 * 24, -1);
    bodies::spread_row(run, out.data(), 24, in.data(), 3, 20);
    return out;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(rows[i] == (i % 24 < 20 ? cpu::widen(in[i % 24]) : -1.0F));
  }
}

TEST_CASE_TEMPLATE("rotary turns and turns back with the CPU's bits", S, float, BFloat16) {
  for (const std::int64_t width : {std::int64_t{32}, std::int64_t{10}}) {
    const std::int64_t sequence = 7, heads = 3;
    const cpu::RotaryShape shape{kRows, sequence, heads, width, heads * width + 8};
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < width / 2; ++i) frequencies.push_back(1.0 / (1.0 + 3.0 * i));
    std::vector<float> cosines(index(sequence * width / 2)), sines = cosines;
    cpu::rotary_table(cosines.data(), sines.data(), sequence, std::span<const double>(frequencies));
    const auto x = random_stored<S>(index(kRows * shape.stride), 4);
    auto expected = x;
    cpu::rotary_forward(expected.data(), cosines.data(), sines.data(), shape);
    CHECK(same_bits(expected, emulate([&](const auto& run) {
                      auto out = x;
                      bodies::rotate(run, out.data(), cosines.data(), sines.data(), shape, 1);
                      return out;
                    })));
    expected = x;
    cpu::rotary_backward(expected.data(), cosines.data(), sines.data(), shape);
    CHECK(same_bits(expected, emulate([&](const auto& run) {
                      auto out = x;
                      bodies::rotate(run, out.data(), cosines.data(), sines.data(), shape, -1);
                      return out;
                    })));
  }
}

TEST_CASE_TEMPLATE("bias, dropout and residual have the CPU's bits", S, float, BFloat16) {
  const cpu::Dropout dropout{0.25, 0x123456789abcdefULL, 7, 3, cpu::DropoutSite::kMlpOutput};
  for (const std::int64_t width : kWidths) {
    const std::int64_t n = kRows * width;
    const auto product = random_stored<float>(index(n), 5);
    const auto bias = random_stored<S>(index(width), 6);
    const auto residual = random_stored<S>(index(n), 7);
    for (int mask = 0; mask < 8; ++mask) {
      const S* b = (mask & 1) != 0 ? bias.data() : nullptr;
      const S* r = (mask & 2) != 0 ? residual.data() : nullptr;
      const cpu::Dropout* d = (mask & 4) != 0 ? &dropout : nullptr;
      std::vector<S> expected(index(n));
      cpu::bias_dropout_residual(expected.data(), product.data(), b, r, kRows, width, d, 5);
      CHECK(same_bits(expected, emulate([&](const auto& run) {
                        std::vector<S> out(index(n));
                        bodies::bias_dropout_residual(run, out.data(), product.data(), b, r, kRows,
                                                      width, d, 5);
                        return out;
                      })));
    }
  }
  const auto x = random_stored<S>(1000, 8);
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{129}}) {
    std::vector<S> expected(1000);
    cpu::apply_dropout(expected.data(), x.data(), dropout, first, 1000);
    CHECK(same_bits(expected, emulate([&](const auto& run) {
                      std::vector<S> out = x;
                      bodies::apply_dropout(run, out.data(), out.data(), dropout, first, 1000);
                      return out;
                    })));
  }
}

TEST_CASE("the factor of a single element is that of its group") {
  const cpu::Dropout dropout{0.5, 42, 1, 0, cpu::DropoutSite::kAttention};
  std::vector<float> factors(300);
  cpu::dropout_factors(factors.data(), dropout, 1000, 300);
  const cpu::DropoutStream stream = cpu::stream_of(dropout);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    REQUIRE(bodies::dropout_factor(stream, 1000 + i) == factors[i]);
  }
}

TEST_CASE("masks are those of the step that lies where dropout is told to look") {
  const cpu::Dropout dropout{0.25, 42, 7, 1, cpu::DropoutSite::kMlpOutput};
  std::uint32_t step = 6;
  cpu::Dropout elsewhere = dropout;
  elsewhere.step = 99;
  elsewhere.step_at = &step;
  const auto x = random_stored<float>(500, 8);
  const auto drop = [&](const cpu::Dropout& by) {
    return emulate([&](const auto& run) {
      std::vector<float> out(x.size());
      bodies::apply_dropout(run, out.data(), x.data(), by, 100, 500);
      return out;
    });
  };
  CHECK_FALSE(same_bits(drop(elsewhere), drop(dropout)));
  step = 7;
  CHECK(same_bits(drop(elsewhere), drop(dropout)));
  std::vector<float> of_host(x.size());
  cpu::apply_dropout(of_host.data(), x.data(), elsewhere, 100, 500);
  CHECK(same_bits(of_host, drop(dropout)));
  CHECK(bodies::dropout_factor(cpu::stream_of(elsewhere), 123) ==
        bodies::dropout_factor(cpu::stream_of(dropout), 123));
}

TEST_CASE("a place is a row and a column, of 32 and of 64 bits") {
  for (const std::int64_t width : {std::int64_t{1}, std::int64_t{7}, std::int64_t{1} << 33}) {
    for (const std::int64_t i : {std::int64_t{0}, std::int64_t{4294967295},
                                 std::int64_t{4294967296}, std::int64_t{1} << 40}) {
      const Place place = place_of(i, width);
      CHECK(place.row == i / width);
      CHECK(place.column == i % width);
    }
  }
}

}  // namespace
}  // namespace nqd::engine::cuda
