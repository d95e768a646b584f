// Which rank is slow. Ranks of a synchronous run wait for one another, so that all of them are as
// slow as the slowest: what tells is each rank's own work in a step, without what it waits for.
//
// Over a window of steps a rank takes, of each phase, the median of its times and their spread
// (engine/numerics/robust.h), and the ranks exchange these. A rank is compared with the others of
// its pipeline stage, which do the same work; the only one of its stage, with its own first window.
//
//   score = (its median − m) / max(spread of the others' medians, median of the others' spreads,
//                                  floor · w)
//
// m is the median of the others, w that of their work in a whole step. The floor keeps quiet
// machines from raising an alarm over nothing: kFloor, or kFloorOfTwo where there is one other
// alone, or the rank's own past, and thus no spread between ranks. With two ranks and a score of 6
// a rank is slow whose phase takes longer by 30 % of a step's work. It is named when it has been
// slow in kWindowsInARow windows, one behind the other.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/parallel/pipeline/phase_clock.h"
#include "engine/records.h"
#include "planner/spec.h"

namespace nqd::engine {

// Windows in a row that a rank is slow before it is named: what else runs on a machine slows one
// rank or another for a while.
inline constexpr int kWindowsInARow = 3;
inline constexpr double kFloor = 0.02;
inline constexpr double kFloorOfTwo = 0.05;

// Of one rank over one window.
struct PhaseSummary {
  PhaseTimes medians{};
  PhaseTimes spreads{};
  double work() const;  // of a step
};
// At least one step.
PhaseSummary summarize_phases(const std::vector<PhaseTimes>& steps);

struct SlowRank {
  int rank = 0;
  Phase phase = Phase::kData;  // of those above the limit, that with most seconds to spare
  double seconds = 0;          // of it, a step
  double usual_s = 0;          // m
  double score = 0;
};
// `ranks` and `stages` by rank, `first` of the first window. At most one entry a rank.
std::vector<SlowRank> find_slow_ranks(std::span<const PhaseSummary> ranks,
                                      std::span<const PhaseSummary> first,
                                      std::span<const std::int64_t> stages, double limit);

// Collective, all ranks of the mesh at the same steps.
class StragglerMonitor {
 public:
  // `control` has all ranks, and must outlive it.
  StragglerMonitor(const planner::Config& config, collectives::Communicator& control);

  bool is_on() const { return limit_ > 0; }
  // A step is done. Every guard.window steps the ranks exchange their times (planner::time_sums
  // sums of planner::kTotalsWords); a window in which each of its steps was noted is judged.
  // Returns ranks that have now been slow in kWindowsInARow windows, and not in the one before
  // these; equal on all ranks.
  std::vector<StragglerRecord> note(std::int64_t step, const PhaseTimes& times);
  // The steps of a window that were undone are no part of it.
  void forget_window() { window_.clear(); }

 private:
  std::vector<PhaseSummary> exchange(const PhaseSummary& mine);

  collectives::Communicator& control_;
  const double limit_;
  const std::int64_t steps_;
  std::vector<std::int64_t> stages_;  // by rank
  std::vector<PhaseTimes> window_;
  std::vector<PhaseSummary> first_;
  std::map<int, int> slow_;  // rank: for how many windows now
};

// "step 64: rank 1 on host a is slow in backward: 0.12 s a step, the others 50 ms (score 14)".
std::string describe(const StragglerRecord& straggler);

}  // namespace nqd::engine
