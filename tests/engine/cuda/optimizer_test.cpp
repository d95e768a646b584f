// Optimizer kernels on the host, against the CPU's; rounding at random.
#include <doctest/doctest.h>

#include <numeric>

#include "engine/cuda/kernels/bodies/optimizer.h"
#include "tests/engine/cuda/host_block.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

constexpr std::int64_t kCount = 1029;

std::vector<float> positive(unsigned seed) {
  auto values = random_stored<float>(index(kCount), seed, 0.01);
  for (float& value : values) value = std::abs(value);
  return values;
}

std::vector<float> joined(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

TEST_CASE_TEMPLATE("AdamW has the CPU's bits", S, float, BFloat16) {
  const auto start = random_stored<float>(index(kCount), 1),
             g = random_stored<float>(index(kCount), 2);
  const auto m0 = random_stored<float>(index(kCount), 3, 0.1);
  const auto v0 = positive(4);
  AdamwOptions options;
  options.weight_decay = 0.1F;
  options.gradient_scale = 0.7F;
  auto w = start, m = m0, v = v0;
  std::vector<S> stored(index(kCount));
  if constexpr (std::is_same_v<S, float>) {
    engine::adamw_step(w, g, m, v, 3, options);
  } else {
    engine::adamw_step<S>(w, stored, g, m, v, 3, options);
  }
  std::vector<S> low(index(kCount));
  const auto state = emulate([&](const auto& run) {
    auto w1 = start, m1 = m0, v1 = v0;
    if constexpr (std::is_same_v<S, float>) {
      bodies::adamw_step(run, w1.data(), g.data(), m1.data(), v1.data(), kCount, 3, options);
    } else {
      bodies::adamw_step(run, w1.data(), low.data(), g.data(), m1.data(), v1.data(), kCount, 3,
                         options);
    }
    return joined(joined(w1, m1), v1);
  });
  CHECK(same_bits(state, joined(joined(w, m), v)));
  CHECK(same_bits(low, stored));
}

TEST_CASE("descent, momentum and averages have the CPU's bits") {
  const auto start = random_stored<float>(index(kCount), 1),
             g = random_stored<float>(index(kCount), 2);
  SgdOptions options;
  options.weight_decay = 0.1F;
  auto w = start, u = start, plain = start, average = g;
  std::vector<BFloat16> stored(index(kCount)), low(index(kCount));
  engine::sgd_step<BFloat16>(w, stored, g, u, options);
  engine::sgd_step(plain, g, {}, options);
  engine::ema_step(average, w, 0.9F);
  const auto state = emulate([&](const auto& run) {
    auto w1 = start, u1 = start, plain1 = start, average1 = g;
    bodies::sgd_step(run, w1.data(), low.data(), g.data(), u1.data(), kCount, options);
    bodies::sgd_step(run, plain1.data(), g.data(), nullptr, kCount, options);
    bodies::ema_step(run, average1.data(), w1.data(), kCount, 0.9F);
    return joined(joined(w1, u1), joined(plain1, average1));
  });
  CHECK(same_bits(state, joined(joined(w, u), joined(plain, average))));
  CHECK(same_bits(low, stored));
}

TEST_CASE("a weight rounded at random is one of its neighbours, and right on average") {
  const auto bits = std::bit_cast<std::uint32_t>(1.0F + 0x1p-7F * 0.25F);
  int above = 0;
  for (std::uint32_t random = 0; random < 65536; ++random) {
    const std::uint16_t rounded = bodies::round_at_random(bits, random);
    REQUIRE((rounded == 0x3f80 || rounded == 0x3f81));
    above += rounded == 0x3f81 ? 1 : 0;
  }
  CHECK(above == 65536 / 4);
  CHECK(bodies::round_at_random(0x7f800000U, 0xffff) == 0x7f80);  // infinity
  CHECK(bodies::round_at_random(0xff800001U, 0) == 0xffc0);       // NaN
  CHECK(bodies::round_at_random(std::bit_cast<std::uint32_t>(-2.0F), 0xffff) == 0xc000);  // exact
}

TEST_CASE("AdamW without a master copy does not depend on the cut into shards") {
  const auto start = random_stored<BFloat16>(index(kCount), 1);
  const auto g = random_stored<float>(index(kCount), 2);
  const AdamwOptions options;
  const auto whole = emulate([&](const auto& run) {
    auto w = start;
    std::vector<float> m(index(kCount)), v(index(kCount));
    bodies::adamw_step_stochastic(run, w.data(), g.data(), m.data(), v.data(), kCount, 2, options,
                                  99, 0);
    return w;
  });
  const auto cut = emulate([&](const auto& run) {
    auto w = start;
    std::vector<float> m(index(kCount)), v(index(kCount));
    for (const auto& [first, end] :
         {std::pair<std::int64_t, std::int64_t>{0, 333}, {333, kCount}}) {
      bodies::adamw_step_stochastic(run, w.data() + first, g.data() + first, m.data() + first,
                                    v.data() + first, end - first, 2, options, 99, first);
    }
    return w;
  });
  CHECK(same_bits(whole, cut));
  // Each is the master's update, rounded to one of its neighbours; both happen.
  std::vector<float> master, m(index(kCount)), v(index(kCount));
  for (const BFloat16 value : start) master.push_back(to_float(value));
  engine::adamw_step(master, g, m, v, 2, options);
  int nearest = 0, other = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::uint32_t exact = std::bit_cast<std::uint32_t>(master[i]);
    const std::uint16_t low = static_cast<std::uint16_t>(exact >> 16);
    REQUIRE((whole[i].bits == low || whole[i].bits == low + 1));
    (whole[i].bits == to_bfloat16(master[i]).bits ? nearest : other) += 1;
  }
  CHECK(nearest > 0);
  CHECK(other > 0);
}

TEST_CASE("the sum of squares is right to the last bits, for every length") {
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{50000}}) {
    const auto x = random_stored<float>(index(n), 5, 3.0);
    const auto sum = emulate([&](const auto& run) {
      std::vector<double> out(1, -1), scratch(index(divide_up(n, bodies::kNormChunk)), -1);
      bodies::sum_of_squares(run, out.data(), x.data(), n, scratch.data());
      return out;
    });
    double expected = 0;
    for (const float value : x) expected += static_cast<double>(value) * value;
    CHECK(sum[0] == doctest::Approx(expected).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace nqd::engine::cuda
