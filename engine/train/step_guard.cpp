#include "engine/train/step_guard.h"

#include <array>
#include <cmath>
#include <utility>

#include "engine/numerics/robust.h"

namespace nqd::engine {

std::string_view describe(StepVerdict verdict) {
  constexpr std::array<std::string_view, 4> kClauses = {
      "the step is good", "the loss is not finite", "the gradient norm is not finite",
      "the loss is a spike"};
  return kClauses[static_cast<std::size_t>(verdict)];
}

StepVerdict StepGuard::judge(double loss, double grad_norm) {
  StepVerdict verdict = StepVerdict::kGood;
  if (!std::isfinite(loss)) {
    verdict = StepVerdict::kLossNotFinite;
  } else if (!std::isfinite(grad_norm)) {
    verdict = StepVerdict::kGradientsNotFinite;
  } else if (is_spike(loss)) {
    verdict = StepVerdict::kSpike;
  }
  if (verdict != StepVerdict::kGood) {
    ++skipped_in_a_row_;
    return verdict;
  }
  skipped_in_a_row_ = 0;
  if (guard_.spike_score > 0) good_losses_.push_back(loss);
  trim();
  return verdict;
}

void StepGuard::restore(std::int64_t skipped_in_a_row, std::vector<double> good_losses) {
  skipped_in_a_row_ = skipped_in_a_row;
  good_losses_ = std::move(good_losses);
  if (guard_.spike_score == 0) good_losses_.clear();
  trim();
}

bool StepGuard::is_spike(double loss) const {
  if (guard_.spike_score == 0) return false;
  if (good_losses_.size() < static_cast<std::size_t>(guard_.window)) return false;
  const double spread = robust_spread(good_losses_);
  return spread > 0 && loss - median(good_losses_) > guard_.spike_score * spread;
}

void StepGuard::trim() {
  const auto window = static_cast<std::size_t>(guard_.window);
  if (good_losses_.size() <= window) return;
  good_losses_.erase(good_losses_.begin(),
                     good_losses_.end() - static_cast<std::ptrdiff_t>(window));
}

}  // namespace nqd::engine
