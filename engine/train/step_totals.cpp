#include "engine/train/step_totals.h"

#include <algorithm>
#include <array>
#include <span>

#include "planner/layout/control.h"

namespace nqd::engine {

StepTotals add_up(collectives::Communicator& control, const RankTotals& mine) {
  constexpr std::size_t kWords = ExactSum::kWords;
  const std::array<const ExactSum*, 4> sums = {&mine.loss, &mine.squared_gradients,
                                               &mine.squared_leaves, &mine.squared_but_table};
  static_assert(planner::kTotalsWords == sums.size() * kWords + 7);
  std::array<std::int64_t, planner::kTotalsWords> words{};
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const ExactSum::Words one = sums[i]->words();
    std::copy(one.begin(), one.end(), words.data() + i * kWords);
  }
  std::int64_t* const counts = words.data() + sums.size() * kWords;
  counts[0] = mine.targets;
  counts[1] = mine.asked_to_stop ? 1 : 0;
  counts[2] = mine.save.is_due ? 1 : 0;
  counts[3] = mine.save.saved ? 1 : 0;
  counts[4] = mine.save.save_failed ? 1 : 0;
  counts[5] = mine.save.copied ? 1 : 0;
  counts[6] = mine.save.copy_failed ? 1 : 0;
  const std::span<std::int64_t> all(words);
  control.all_reduce(std::as_bytes(all), std::as_writable_bytes(all), DType::kInt64,
                     collectives::ReduceOp::kSum, collectives::Algorithm::kRing);
  const auto total = [&](std::size_t i) {
    ExactSum::Words one{};
    std::copy_n(words.data() + i * kWords, kWords, one.begin());
    return ExactSum(one).value();
  };
  const SaveTotals save{counts[2], counts[3], counts[4], counts[5], counts[6]};
  return {total(0), counts[0], total(1), total(2), total(3), counts[1], save};
}

}  // namespace nqd::engine
