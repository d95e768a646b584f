// Which steps count. Every rank judges the same sums, so that all decide alike.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/spec.h"

namespace nqd::engine {

enum class StepVerdict : std::uint8_t {
  kGood,
  kLossNotFinite,
  kGradientsNotFinite,
  kSpike,  // of the loss
};
// What is wrong, as a clause: "the loss is not finite". Of any but kGood.
std::string_view describe(StepVerdict verdict);

class StepGuard {
 public:
  explicit StepGuard(const planner::GuardSpec& guard) : guard_(guard) {}

  // Judges a step and notes it. kSpike: the loss lies more than spike_score robust standard
  // deviations (engine/numerics/robust.h) above the median of the last `window` good ones. No loss
  // does before there are as many, or while they are all but equal, so that their spread is 0.
  StepVerdict judge(double loss, double grad_norm);
  // max_skips steps in a row did not count.
  bool gives_up() const { return skipped_in_a_row_ >= guard_.max_skips; }

  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  // The oldest first; none where no spikes are looked for.
  const std::vector<double>& good_losses() const { return good_losses_; }
  void restore(std::int64_t skipped_in_a_row, std::vector<double> good_losses);

 private:
  bool is_spike(double loss) const;
  void trim();

  const planner::GuardSpec guard_;
  std::int64_t skipped_in_a_row_ = 0;
  std::vector<double> good_losses_;
};

}  // namespace nqd::engine
