// A sum of doubles without rounding: a fixed-point number wide enough for every double (a
// superaccumulator; Kulisch, "Computer Arithmetic and Validity", 2008). It depends on what was
// added alone, not on the order, nor on how it was split over threads and ranks; it is rounded
// once, when it is read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace nqd::engine {

class ExactSum {
 public:
  // Limbs of 32 bits from 2^-1074 on, then how many NaN, +∞ and −∞ were added.
  static constexpr std::size_t kLimbs = 68;
  static constexpr std::size_t kWords = kLimbs + 3;
  using Words = std::array<std::int64_t, kWords>;

  ExactSum() = default;
  // From words(), or from the elementwise sum of the words of up to 2^30 sums: then of all of them.
  explicit ExactSum(const Words& words);

  void add(double value);
  void add(const ExactSum& other);
  // Σ v², every square exact. About half a nanosecond an element.
  void add_squares(std::span<const float> values);

  // Rounded to nearest, ties to even; +0 for nothing. NaN when a NaN was added or infinities of
  // both signs were, else the infinity that was added. Overflow gives an infinity.
  double value() const;
  // The sum as integers that an all_reduce adds: equal sums have equal words.
  Words words() const;

 private:
  // Adds magnitude · 2^(position − 1074), negated when `negative`.
  void add_at(std::uint64_t magnitude, unsigned position, bool negative);
  void carry();

  // Between carries a limb may leave [0, 2^32): 2^30 additions of less than 2^32 fit beside it.
  std::array<std::int64_t, kLimbs> limbs_{};
  std::uint32_t additions_ = 0;  // since the last carry
  std::int64_t nans_ = 0;
  std::int64_t plus_infinities_ = 0;
  std::int64_t minus_infinities_ = 0;
};

}  // namespace nqd::engine
