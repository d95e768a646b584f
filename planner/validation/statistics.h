// Figures that judge predictions against measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace nqd::planner {

// Signed, as a share of the measurement: 0.1 = ten percent too much.
inline double relative_error(double predicted, double measured) { return predicted / measured - 1; }

struct ErrorSummary {
  double mean_abs = 0;  // shares, not percent; 0 for no errors
  double max_abs = 0;
};
ErrorSummary summarise(std::span<const double> errors);

// The c for which c·basis has the least mean absolute relative error: the median of
// measured/basis weighted by basis/measured. The smaller of two that are equally good; 0 for no
// rows. All values positive, as many of one as of the other.
double best_constant(std::span<const double> basis, std::span<const double> measured);

// A prediction among others of its group (the same model, devices and batch).
struct Ranked {
  std::string group;
  double predicted = 0;
  double measured = 0;
};
struct Ranking {
  std::int64_t pairs = 0;             // inside groups, of different measurements
  std::optional<double> kendall_tau;  // absent without pairs
  std::int64_t groups = 0;            // of at least four rows, which the rest is about
  double best_in_top3 = 0;  // share of groups whose measured best is among three predicted best
  double mean_regret = 0;   // measured time of the predicted best ÷ measured best − 1
};
// Kendall's τ over the pairs of all groups together: (concordant − discordant) / pairs; a pair that
// is predicted equal counts as neither, a pair that was measured equal is left out.
Ranking rank(std::span<const Ranked> rows);

}  // namespace nqd::planner
