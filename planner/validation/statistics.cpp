#include "planner/validation/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace nqd::planner {
namespace {

constexpr std::size_t kTop = 3;

using Group = std::vector<const Ranked*>;

std::int64_t sign(double value) { return (value > 0) - (value < 0); }

// Adds the pairs of one group; returns concordant − discordant.
std::int64_t count_pairs(const Group& group, std::int64_t& pairs) {
  std::int64_t agreement = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (std::size_t j = i + 1; j < group.size(); ++j) {
      const std::int64_t truth = sign(group[i]->measured - group[j]->measured);
      if (truth == 0) continue;
      ++pairs;
      agreement += truth * sign(group[i]->predicted - group[j]->predicted);
    }
  }
  return agreement;
}

void judge_choice(Group& group, Ranking& ranking) {
  std::stable_sort(group.begin(), group.end(),
                   [](const Ranked* a, const Ranked* b) { return a->predicted < b->predicted; });
  const auto best =
      std::min_element(group.begin(), group.end(),
                       [](const Ranked* a, const Ranked* b) { return a->measured < b->measured; });
  const double least = (*best)->measured;
  const bool found = std::any_of(group.begin(), group.begin() + kTop,
                                 [&](const Ranked* row) { return row->measured <= least; });
  ++ranking.groups;
  ranking.best_in_top3 += found ? 1 : 0;
  ranking.mean_regret += group.front()->measured / least - 1;
}

}  // namespace

ErrorSummary summarise(std::span<const double> errors) {
  ErrorSummary summary;
  for (const double error : errors) {
    summary.mean_abs += std::abs(error);
    summary.max_abs = std::max(summary.max_abs, std::abs(error));
  }
  if (!errors.empty()) summary.mean_abs /= static_cast<double>(errors.size());
  return summary;
}

double best_constant(std::span<const double> basis, std::span<const double> measured) {
  std::vector<std::pair<double, double>> ratios;  // measured/basis, weight
  double total = 0;
  for (std::size_t i = 0; i < basis.size(); ++i) {
    ratios.emplace_back(measured[i] / basis[i], basis[i] / measured[i]);
    total += ratios.back().second;
  }
  std::sort(ratios.begin(), ratios.end());
  double below = 0;
  for (const auto& [ratio, weight] : ratios) {
    below += weight;
    if (2 * below >= total) return ratio;
  }
  return 0;
}

Ranking rank(std::span<const Ranked> rows) {
  std::map<std::string_view, Group> groups;
  for (const Ranked& row : rows) groups[row.group].push_back(&row);
  Ranking ranking;
  std::int64_t agreement = 0;
  for (auto& [name, group] : groups) {
    agreement += count_pairs(group, ranking.pairs);
    if (group.size() > kTop) judge_choice(group, ranking);
  }
  if (ranking.pairs > 0) {
    ranking.kendall_tau = static_cast<double>(agreement) / static_cast<double>(ranking.pairs);
  }
  if (ranking.groups > 0) {
    ranking.best_in_top3 /= static_cast<double>(ranking.groups);
    ranking.mean_regret /= static_cast<double>(ranking.groups);
  }
  return ranking;
}

}  // namespace nqd::planner
