#include "engine/cpu/dropout.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "engine/philox.h"
#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

constexpr Dropout kDropout{.rate = 0.1,
                           .seed = 0x123456789ABCDEF0,
                           .step = 7,
                           .layer = 3,
                           .site = DropoutSite::kMlpOutput};

}  // namespace

TEST_CASE("a factor is the documented word of Philox") {
  const std::int64_t first = (std::int64_t{1} << 40) + 5;
  std::vector<float> factors(200);
  dropout_factors(factors.data(), kDropout, first, 200);
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t element = first + i;
    const auto block = static_cast<std::uint64_t>(element / 64 * 16 + element % 16);
    const PhiloxCounter words =
        philox4x32_10({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                       7, 3 * 256 + 3},
                      {0x9ABCDEF0, 0x12345678 ^ 0x64726F70});
    const double uniform = words[static_cast<std::size_t>(element / 16 % 4)] * 0x1p-32;
    REQUIRE(factors[index(i)] == (uniform >= 0.1 ? static_cast<float>(1 / 0.9) : 0.0F));
  }
}

TEST_CASE_TEMPLATE("masks are equal for every split, in place too", S, float, BFloat16, Float16) {
  const auto x = random_stored<S>(1000, 1);
  std::vector<S> whole(1000), parts = x;
  apply_dropout(whole.data(), x.data(), kDropout, 12345, 1000);
  const std::int64_t borders[] = {0, 1, 17, 64, 130, 131, 500, 999, 1000};
  for (std::size_t i = 0; i + 1 < std::size(borders); ++i) {
    S* const at = parts.data() + borders[i];
    apply_dropout(at, at, kDropout, 12345 + borders[i], borders[i + 1] - borders[i]);
  }
  CHECK(same_bits(parts, whole));
}

TEST_CASE("the share of zeros is the rate, and every key draws masks of its own") {
  constexpr std::int64_t kCount = 1 << 20;
  std::vector<float> factors(kCount);
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    Dropout dropout = kDropout;
    dropout.rate = rate;
    dropout_factors(factors.data(), dropout, 0, kCount);
    std::int64_t zeros = 0, pairs = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      zeros += factors[i] == 0.0F ? 1 : 0;
      pairs += factors[i] == 0.0F && factors[i ^ 1] == 0.0F ? 1 : 0;
    }
    // Five standard deviations of a binomial; neighbours independent.
    const double n = kCount;
    CHECK(std::abs(static_cast<double>(zeros) - rate * n) <= 5 * std::sqrt(n * rate * (1 - rate)));
    CHECK(std::abs(static_cast<double>(pairs) - rate * rate * n) <=
          5 * std::sqrt(2 * n * rate * rate));
  }
  std::set<std::vector<float>> masks;
  std::vector<float> mask(256);
  const auto draw = [&](const Dropout& dropout) {
    dropout_factors(mask.data(), dropout, 0, 256);
    masks.insert(mask);
  };
  Dropout other = kDropout;
  draw(other);
  draw(other);
  other.seed += std::uint64_t{1} << 32;
  draw(other);
  other.step += 1;
  draw(other);
  other.layer += 1;
  draw(other);
  other.site = DropoutSite::kAttention;
  draw(other);
  CHECK(masks.size() == 5);
}

}  // namespace nqd::engine::cpu
