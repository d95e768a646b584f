#include "engine/train/stragglers.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <optional>

#include "base/units.h"
#include "engine/numerics/robust.h"
#include "planner/layout/control.h"
#include "planner/mesh/rank_map.h"

namespace nqd::engine {
namespace {

static_assert(planner::kTimesOfRank == 2 * kPhases);

// What a rank is compared with.
struct Usual {
  PhaseTimes medians{};
  PhaseTimes spreads{};
};

Usual usual_of(const std::vector<PhaseSummary>& others) {
  const double floor = others.size() > 1 ? kFloor : kFloorOfTwo;
  std::vector<double> work;
  for (const PhaseSummary& other : others) work.push_back(other.work());
  const double least = floor * median(work);
  Usual usual;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    std::vector<double> medians;
    std::vector<double> spreads;
    for (const PhaseSummary& other : others) {
      medians.push_back(other.medians[phase]);
      spreads.push_back(other.spreads[phase]);
    }
    usual.medians[phase] = median(medians);
    usual.spreads[phase] = std::max({robust_spread(medians), median(spreads), least});
  }
  return usual;
}

std::optional<SlowRank> judge(int rank, const PhaseSummary& mine, const Usual& usual,
                              double limit) {
  std::optional<SlowRank> worst;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    const double excess_s = mine.medians[phase] - usual.medians[phase];
    if (excess_s <= limit * usual.spreads[phase]) continue;
    if (worst && worst->seconds - worst->usual_s >= excess_s) continue;
    worst = SlowRank{rank, static_cast<Phase>(phase), mine.medians[phase], usual.medians[phase],
                     excess_s / usual.spreads[phase]};
  }
  return worst;
}

}  // namespace

double PhaseSummary::work() const { return std::accumulate(medians.begin(), medians.end(), 0.0); }

PhaseSummary summarize_phases(const std::vector<PhaseTimes>& steps) {
  PhaseSummary summary;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    std::vector<double> times;
    for (const PhaseTimes& step : steps) times.push_back(step[phase]);
    summary.spreads[phase] = robust_spread(times);
    summary.medians[phase] = median(std::move(times));
  }
  return summary;
}

std::vector<SlowRank> find_slow_ranks(std::span<const PhaseSummary> ranks,
                                      std::span<const PhaseSummary> first,
                                      std::span<const std::int64_t> stages, double limit) {
  std::vector<SlowRank> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<PhaseSummary> others;
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (other != rank && stages[other] == stages[rank]) others.push_back(ranks[other]);
    }
    if (others.empty()) others.push_back(first[rank]);
    if (const auto slow = judge(static_cast<int>(rank), ranks[rank], usual_of(others), limit)) {
      found.push_back(*slow);
    }
  }
  return found;
}

StragglerMonitor::StragglerMonitor(const planner::Config& config,
                                   collectives::Communicator& control)
    : control_(control), limit_(config.guard.straggler_score), steps_(config.guard.window) {
  const planner::RankMap map(config);
  for (int rank = 0; rank < control.size(); ++rank) stages_.push_back(map.place(rank).pp);
}

std::vector<StragglerRecord> StragglerMonitor::note(std::int64_t step, const PhaseTimes& times) {
  if (!is_on()) return {};
  window_.push_back(times);
  if (step % steps_ != 0) return {};
  const bool whole = static_cast<std::int64_t>(window_.size()) == steps_;
  const std::vector<PhaseSummary> ranks = exchange(summarize_phases(window_));
  window_.clear();
  if (!whole) return {};
  if (first_.empty()) first_ = ranks;
  std::vector<StragglerRecord> records;
  std::map<int, int> slow;
  for (const SlowRank& one : find_slow_ranks(ranks, first_, stages_, limit_)) {
    const auto before = slow_.find(one.rank);
    const int windows = before == slow_.end() ? 1 : before->second + 1;
    slow[one.rank] = windows;
    if (windows != kWindowsInARow) continue;
    records.push_back({step, one.rank, control_.host(one.rank), std::string(name(one.phase)),
                       one.seconds, one.usual_s, one.score});
  }
  slow_ = std::move(slow);
  return records;
}

std::vector<PhaseSummary> StragglerMonitor::exchange(const PhaseSummary& mine) {
  constexpr std::size_t kWords = planner::kTotalsWords;
  constexpr std::size_t kRanks = kWords / planner::kTimesOfRank;  // in one sum
  std::vector<PhaseSummary> all(static_cast<std::size_t>(control_.size()));
  const auto own = static_cast<std::size_t>(control_.rank());
  for (std::size_t begin = 0; begin < all.size(); begin += kRanks) {
    std::array<double, kWords> words{};
    if (own >= begin && own < begin + kRanks) {
      double* const place = words.data() + (own - begin) * planner::kTimesOfRank;
      std::copy(mine.medians.begin(), mine.medians.end(), place);
      std::copy(mine.spreads.begin(), mine.spreads.end(), place + kPhases);
    }
    const std::span<double> sums(words);
    control_.all_reduce(std::as_bytes(sums), std::as_writable_bytes(sums), DType::kFloat64,
                        collectives::ReduceOp::kSum, collectives::Algorithm::kRing);
    for (std::size_t rank = begin; rank < std::min(begin + kRanks, all.size()); ++rank) {
      const double* const place = words.data() + (rank - begin) * planner::kTimesOfRank;
      std::copy_n(place, kPhases, all[rank].medians.begin());
      std::copy_n(place + kPhases, kPhases, all[rank].spreads.begin());
    }
  }
  return all;
}

std::string describe(const StragglerRecord& straggler) {
  std::array<char, 32> score{};
  std::snprintf(score.data(), score.size(), "%.1f", straggler.score);
  return "step " + std::to_string(straggler.step) + ": rank " + std::to_string(straggler.rank) +
         " on host " + straggler.host + " is slow in " + straggler.phase + ": " +
         format_seconds(straggler.seconds) + " a step where " + format_seconds(straggler.median_s) +
         " is usual (score " + score.data() + ")";
}

}  // namespace nqd::engine
