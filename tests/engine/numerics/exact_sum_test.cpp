#include "engine/numerics/exact_sum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using nqd::engine::ExactSum;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
constexpr double kLargest = std::numeric_limits<double>::max();

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum;
}

// Doubles of every exponent and both signs, subnormals too.
std::vector<double> wild_doubles(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  while (values.size() < count) {
    const double value = std::bit_cast<double>(random());
    // Below 2^1000, so that no partial sum of a reference overflows.
    if (std::isfinite(value) && std::abs(value) < 0x1p1000) values.push_back(value);
  }
  return values;
}

// Shewchuk's algorithm (1997), which Python's math.fsum uses: non-overlapping partial sums, another
// exact method than the one under test.
class Expansion {
 public:
  void add(double value) {
    std::vector<double> kept;
    for (double part : parts_) {
      if (std::abs(value) < std::abs(part)) std::swap(value, part);
      const double high = value + part;
      const double low = part - (high - value);
      if (low != 0) kept.push_back(low);
      value = high;
    }
    kept.push_back(value);
    parts_ = std::move(kept);
  }
  // Rounds once: the parts do not overlap, so that the second decides a tie of the first.
  double value() const {
    if (parts_.empty()) return 0;
    std::size_t i = parts_.size() - 1;
    double high = parts_[i];
    double low = 0;
    while (i > 0) {
      const double before = high;
      high = before + parts_[--i];
      low = parts_[i] - (high - before);
      if (low != 0) break;
    }
    if (i > 0 && low != 0 && std::signbit(low) == std::signbit(parts_[i - 1])) {
      const double twice = low * 2;
      const double other = high + twice;
      if (twice == other - high) high = other;
    }
    return high;
  }

 private:
  std::vector<double> parts_;
};

}  // namespace

TEST_CASE("nothing is zero, one value is itself") {
  CHECK(bits(ExactSum().value()) == bits(0.0));
  for (const double value : {1.0, -1.5, kSmallest, -kSmallest, 3 * kSmallest, 0x1p-1022, 0x1p-1023,
                             kLargest, -kLargest, 0x1.fffffffffffffp-1022}) {
    CHECK(bits(sum_of({value}).value()) == bits(value));
  }
}

TEST_CASE("cancellation loses nothing") {
  CHECK(sum_of({1e308, 1.0, -1e308}).value() == 1.0);
  CHECK(sum_of({kLargest, kSmallest, -kLargest}).value() == kSmallest);
  CHECK(sum_of({kLargest, kLargest, -kLargest}).value() == kLargest);
  CHECK(bits(sum_of({0.1, -0.1}).value()) == bits(0.0));
  CHECK(sum_of({kLargest, kLargest}).value() == kInfinity);
  CHECK(sum_of({-kLargest, -kLargest}).value() == -kInfinity);
}

TEST_CASE("the one rounding is to nearest, ties to even") {
  const double ulp = 0x1p-52;
  CHECK(sum_of({1.0, ulp / 2}).value() == 1.0);
  CHECK(sum_of({1.0, ulp / 2, kSmallest}).value() == 1.0 + ulp);
  CHECK(sum_of({1.0 + ulp, ulp / 2}).value() == 1.0 + 2 * ulp);
  CHECK(sum_of({1.0 + ulp, ulp / 2, -kSmallest}).value() == 1.0 + ulp);
  CHECK(sum_of({-1.0, -ulp / 2, -kSmallest}).value() == -1.0 - ulp);
  CHECK(sum_of({2.0 - ulp, ulp / 2}).value() == 2.0);
  CHECK(sum_of({kLargest, 0x1p970}).value() == kInfinity);
  CHECK(sum_of({kLargest, 0x1p969}).value() == kLargest);
}

TEST_CASE("random sums are those of Shewchuk's expansions") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::vector<double> values = wild_doubles(1 + seed, seed);
    // Half of the cases cancel but for the last value.
    if (seed % 2 == 1) {
      const std::vector<double> copy = values;
      for (std::size_t i = 1; i < copy.size(); ++i) values.push_back(-copy[i]);
    }
    Expansion expected;
    for (const double value : values) expected.add(value);
    REQUIRE(bits(sum_of(values).value()) == bits(expected.value()));
  }
}

TEST_CASE("order and split do not matter, to the bit of every word") {
  std::vector<double> values = wild_doubles(1000, 7);
  const ExactSum::Words whole = sum_of(values).words();
  std::mt19937 random(8);
  for (const std::size_t parts : {1, 2, 3, 7, 64}) {
    std::shuffle(values.begin(), values.end(), random);
    std::vector<ExactSum> sums(parts);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % parts].add(values[i]);
    ExactSum merged;
    ExactSum::Words added{};  // as an all_reduce of integers adds them
    for (const ExactSum& sum : sums) {
      merged.add(sum);
      const ExactSum::Words words = sum.words();
      for (std::size_t k = 0; k < words.size(); ++k) added[k] += words[k];
    }
    CHECK(merged.words() == whole);
    CHECK(ExactSum(added).words() == whole);
    CHECK(bits(ExactSum(added).value()) == bits(sum_of(values).value()));
  }
}

TEST_CASE("NaN and infinities are handed on") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(sum_of({1.0, nan}).value()));
  CHECK(sum_of({1.0, kInfinity}).value() == kInfinity);
  CHECK(sum_of({-kInfinity, kLargest}).value() == -kInfinity);
  CHECK(std::isnan(sum_of({kInfinity, -kInfinity}).value()));
  ExactSum squares;
  squares.add_squares(std::vector<float>{1.0F, -std::numeric_limits<float>::infinity()});
  CHECK(squares.value() == kInfinity);
  squares.add_squares(std::vector<float>{std::numeric_limits<float>::quiet_NaN()});
  CHECK(std::isnan(ExactSum(squares.words()).value()));
}

TEST_CASE("squares of floats are exact, whatever their exponents") {
  std::mt19937 random(11);
  for (const std::size_t count : {0, 1, 3, 255, 256, 257, 5000}) {
    std::vector<float> values;
    while (values.size() < count) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (std::isfinite(value)) values.push_back(value);
    }
    for (std::size_t i = 0; i < count; i += 5) values[i] = 0;
    for (std::size_t i = 1; i < count; i += 7) values[i] = std::numeric_limits<float>::denorm_min();
    ExactSum expected;
    for (const float value : values) {
      // 48 bits, exact in a double.
      expected.add(static_cast<double>(value) * static_cast<double>(value));
    }
    ExactSum found;
    found.add_squares(values);
    CHECK(found.words() == expected.words());
  }
}

TEST_CASE("as many equal squares as there are elements in a large model's unit") {
  // The largest mantissa, more often than a table of 64 bits holds its squares.
  const float value = 0x1.fffffep0F;
  const std::size_t count = (std::size_t{4} << 16) * 2 + 3;
  ExactSum found;
  found.add_squares(std::vector<float>(count, value));
  const double square = static_cast<double>(value) * static_cast<double>(value);
  ExactSum expected;
  for (std::size_t i = 0; i < count; ++i) expected.add(square);
  CHECK(found.words() == expected.words());
}
