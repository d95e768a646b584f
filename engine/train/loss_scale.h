// The factor of the loss that keeps float16 gradients inside their range.
#pragma once

#include "planner/spec.h"

namespace nqd::engine {

// 1 for every other precision. A power of two, so that scaling rounds nothing: halved after a step
// whose gradients overflowed, doubled after kGrowAfter good steps in a row (Micikevicius et al.,
// "Mixed precision training", arXiv:1710.03740, section 3.2). It multiplies the sum of losses, not
// their mean, hence the small start.
class LossScale {
 public:
  static constexpr int kGrowAfter = 2000;
  explicit LossScale(planner::Precision precision)
      : dynamic_(precision == planner::Precision::kFloat16), value_(dynamic_ ? 256.0F : 1.0F) {}

  float value() const { return value_; }
  int good_steps() const { return good_; }
  void restore(float value, int good_steps) {
    value_ = value;
    good_ = good_steps;
  }
  void update(bool overflowed) {
    if (!dynamic_) return;
    if (overflowed) {
      value_ = value_ > kLeast ? value_ / 2 : value_;
      good_ = 0;
    } else if (++good_ == kGrowAfter) {
      value_ = value_ < kMost ? value_ * 2 : value_;
      good_ = 0;
    }
  }

 private:
  static constexpr float kLeast = 1.0F / 65536;
  static constexpr float kMost = 16777216.0F;
  bool dynamic_;
  float value_;
  int good_ = 0;
};

}  // namespace nqd::engine
