#include "engine/numerics/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace nqd::engine {
namespace {

constexpr unsigned kLimbBits = 32;
constexpr std::int64_t kLimbMask = 0xffffffff;
constexpr std::uint32_t kCarryAfter = std::uint32_t{1} << 30;

// Exponents of float32 as stored.
constexpr std::size_t kExponents = 256;
// Tables side by side: an addition need not wait for the one before it to the same exponent.
constexpr std::size_t kTables = 4;
// Elements whose squares, below 2^48 each, fit into 64 bits a table together.
constexpr std::size_t kMostSquares = kTables << 16;
// Elements that are taken apart together, in the vector unit.
constexpr std::size_t kBlock = 256;

// A float32 is ± mantissa · 2^(max(exponent, 1) − 150).
struct Parts {
  std::array<std::uint64_t, kBlock> squares;  // of mantissas
  std::array<std::uint32_t, kBlock> exponents;
};

void take_apart(const float* values, std::size_t count, Parts& parts) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t exponent = (bits >> 23) & 0xff;
    const std::uint32_t mantissa =
        (bits & 0x7fffff) | (exponent != 0 ? std::uint32_t{1} << 23 : std::uint32_t{0});
    parts.exponents[i] = exponent;
    parts.squares[i] = static_cast<std::uint64_t>(mantissa) * mantissa;
  }
}

// Sums of squared mantissas by exponent.
class SquaresByExponent {
 public:
  // At most kMostSquares values, in one call.
  void add(std::span<const float> values) {
    Parts parts;
    for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
      const std::size_t count = std::min(kBlock, values.size() - begin);
      take_apart(values.data() + begin, count, parts);
      std::size_t i = 0;
      for (; i + kTables <= count; i += kTables) {
        for (std::size_t table = 0; table < kTables; ++table) {
          sums_[parts.exponents[i + table]][table] += parts.squares[i + table];
        }
      }
      for (; i < count; ++i) sums_[parts.exponents[i]][0] += parts.squares[i];
    }
  }
  const std::array<std::uint64_t, kTables>& sums(std::size_t exponent) const {
    return sums_[exponent];
  }
  bool has(std::size_t exponent) const {
    return std::any_of(sums_[exponent].begin(), sums_[exponent].end(),
                       [](std::uint64_t sum) { return sum != 0; });
  }

 private:
  std::array<std::array<std::uint64_t, kTables>, kExponents> sums_{};
};

// Turns limbs with carries done into their magnitude; true for a negative number.
bool take_sign(std::array<std::int64_t, ExactSum::kLimbs>& limbs) {
  if (limbs.back() >= 0) return false;
  std::int64_t borrow = 0;
  for (std::size_t k = 0; k + 1 < limbs.size(); ++k) {
    const std::int64_t negated = -limbs[k] + borrow;
    limbs[k] = negated & kLimbMask;
    borrow = negated >> kLimbBits;
  }
  limbs.back() = -limbs.back() + borrow;
  return true;
}

// Limbs of a magnitude, rounded to the nearest double.
double rounded(const std::array<std::int64_t, ExactSum::kLimbs>& limbs) {
  const auto bit = [&](unsigned at) { return (limbs[at / kLimbBits] >> (at % kLimbBits)) & 1; };
  std::size_t top = limbs.size();
  while (top > 0 && limbs[top - 1] == 0) --top;
  if (top == 0) return 0;
  const unsigned highest =
      static_cast<unsigned>(top) * kLimbBits - 1 -
      static_cast<unsigned>(std::countl_zero(static_cast<std::uint32_t>(limbs[top - 1])));
  constexpr unsigned kDigits = std::numeric_limits<double>::digits;
  const unsigned lowest = highest < kDigits ? 0 : highest + 1 - kDigits;
  std::uint64_t mantissa = 0;
  for (unsigned at = highest + 1; at-- > lowest;) {
    mantissa = mantissa << 1 | static_cast<std::uint64_t>(bit(at));
  }
  if (lowest > 0 && bit(lowest - 1) != 0) {
    bool above_half = false;
    for (unsigned at = lowest - 1; at-- > 0 && !above_half;) above_half = bit(at) != 0;
    if (above_half || mantissa % 2 != 0) ++mantissa;
  }
  return std::ldexp(static_cast<double>(mantissa), static_cast<int>(lowest) - 1074);
}

}  // namespace

ExactSum::ExactSum(const Words& words) {
  std::copy_n(words.begin(), kLimbs, limbs_.begin());
  nans_ = words[kLimbs];
  plus_infinities_ = words[kLimbs + 1];
  minus_infinities_ = words[kLimbs + 2];
  carry();
}

void ExactSum::carry() {
  std::int64_t over = 0;
  for (std::size_t k = 0; k + 1 < kLimbs; ++k) {
    const std::int64_t limb = limbs_[k] + over;
    limbs_[k] = limb & kLimbMask;
    over = limb >> kLimbBits;
  }
  limbs_.back() += over;
  additions_ = 0;
}

void ExactSum::add_at(std::uint64_t magnitude, unsigned position, bool negative) {
  const unsigned shift = position % kLimbBits;
  const std::array<std::uint64_t, 3> parts = {
      magnitude << shift, magnitude >> (kLimbBits - shift),
      shift == 0 ? 0 : magnitude >> (2 * kLimbBits - shift)};
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::int64_t limb = static_cast<std::int64_t>(parts[k]) & kLimbMask;
    limbs_[position / kLimbBits + k] += negative ? -limb : limb;
  }
  if (++additions_ == kCarryAfter) carry();
}

void ExactSum::add(double value) {
  if (std::isnan(value)) {
    ++nans_;
  } else if (std::isinf(value)) {
    ++(value > 0 ? plus_infinities_ : minus_infinities_);
  } else {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto exponent = static_cast<unsigned>(bits >> 52) & 0x7ff;
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | std::uint64_t{1} << 52;
    add_at(mantissa, exponent == 0 ? 0 : exponent - 1, std::signbit(value));
  }
}

void ExactSum::add(const ExactSum& other) {
  const Words words = other.words();
  carry();
  for (std::size_t k = 0; k < kLimbs; ++k) limbs_[k] += words[k];
  ++additions_;
  nans_ += other.nans_;
  plus_infinities_ += other.plus_infinities_;
  minus_infinities_ += other.minus_infinities_;
}

void ExactSum::add_squares(std::span<const float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += kMostSquares) {
    const auto part = values.subspan(begin, std::min(kMostSquares, values.size() - begin));
    SquaresByExponent squares;
    squares.add(part);
    for (std::size_t exponent = 0; exponent + 1 < kExponents; ++exponent) {
      // (2^(e − 150))² is 2^(2e + 774) units of 2^-1074.
      const auto position = static_cast<unsigned>(2 * std::max<std::size_t>(exponent, 1)) + 774;
      for (const std::uint64_t sum : squares.sums(exponent)) {
        if (sum != 0) add_at(sum, position, false);
      }
    }
    if (!squares.has(kExponents - 1)) continue;
    for (const float value : part) {
      if (std::isnan(value)) ++nans_;
      if (std::isinf(value)) ++plus_infinities_;
    }
  }
}

double ExactSum::value() const {
  if (nans_ > 0 || (plus_infinities_ > 0 && minus_infinities_ > 0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (plus_infinities_ > 0) return kInfinity;
  if (minus_infinities_ > 0) return -kInfinity;
  ExactSum copy = *this;
  copy.carry();
  const bool negative = take_sign(copy.limbs_);
  const double magnitude = rounded(copy.limbs_);
  return negative ? -magnitude : magnitude;
}

ExactSum::Words ExactSum::words() const {
  ExactSum copy = *this;
  copy.carry();
  Words words{};
  std::copy(copy.limbs_.begin(), copy.limbs_.end(), words.begin());
  words[kLimbs] = nans_;
  words[kLimbs + 1] = plus_infinities_;
  words[kLimbs + 2] = minus_infinities_;
  return words;
}

}  // namespace nqd::engine
