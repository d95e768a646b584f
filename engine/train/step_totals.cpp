#include "engine/train/step_totals.h"

#include <algorithm>
#include <array>
#include <span>

#include "planner/layout/control.h"

namespace nqd::engine {

StepTotals add_up(collectives::Communicator& control, const LossSum& loss,
                  const ExactSum& squares) {
  constexpr std::size_t kWords = ExactSum::kWords;
  static_assert(planner::kTotalsWords == 2 * kWords + 1);
  std::array<std::int64_t, planner::kTotalsWords> words{};
  const ExactSum::Words of_loss = loss.loss.words();
  const ExactSum::Words of_squares = squares.words();
  std::copy(of_loss.begin(), of_loss.end(), words.begin());
  std::copy(of_squares.begin(), of_squares.end(), words.begin() + kWords);
  words.back() = loss.tokens;
  const std::span<std::int64_t> all(words);
  control.all_reduce(std::as_bytes(all), std::as_writable_bytes(all), DType::kInt64,
                     collectives::ReduceOp::kSum, collectives::Algorithm::kRing);
  ExactSum::Words total{};
  StepTotals totals;
  std::copy_n(words.begin(), kWords, total.begin());
  totals.loss_sum = ExactSum(total).value();
  std::copy_n(words.begin() + kWords, kWords, total.begin());
  totals.squared_gradients = ExactSum(total).value();
  totals.tokens = words.back();
  return totals;
}

}  // namespace nqd::engine
