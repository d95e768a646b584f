#include "planner/formulas/failure_simulation.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace nqd::planner {
namespace {

// Times between failures, by inversion: the standard's distributions differ between libraries.
class Failures {
 public:
  Failures(double mtbf_s, const FailureTrace& trace)
      : random_(trace.seed),
        inverse_shape_(1 / trace.shape),
        scale_s_(mtbf_s / std::tgamma(1 + inverse_shape_)) {}

  double next_s() {
    // In (0, 1].
    const double uniform = (static_cast<double>(random_() >> 11U) + 1) * 0x1p-53;
    return scale_s_ * std::pow(-std::log(uniform), inverse_shape_);
  }

 private:
  std::mt19937_64 random_;
  double inverse_shape_;
  double scale_s_;
};

struct Outcome {
  double seconds = 0;
  std::int64_t failures = 0;
};

Outcome play(const Resilience& r, double work_s, Failures& failures) {
  Outcome outcome;
  double left_s = failures.next_s();  // until the next failure
  const auto fail = [&] {
    outcome.seconds += left_s;
    ++outcome.failures;
    left_s = failures.next_s();
  };
  for (double saved_s = 0; saved_s < work_s;) {
    const double useful_s = std::min(r.interval_s, work_s - saved_s);
    const double needed_s = useful_s + r.save_s;
    if (left_s >= needed_s) {
      outcome.seconds += needed_s;
      left_s -= needed_s;
      saved_s += useful_s;
      continue;
    }
    fail();
    while (left_s < r.restart_s) fail();
    outcome.seconds += r.restart_s;
    left_s -= r.restart_s;
  }
  return outcome;
}

}  // namespace

SimulatedRuns simulate_failures(const Resilience& resilience, const FailureTrace& trace,
                                double work_s, int runs) {
  Failures failures(resilience.mtbf_s, trace);
  double sum = 0;
  double squares = 0;
  SimulatedRuns result;
  for (int run = 0; run < runs; ++run) {
    const Outcome outcome = play(resilience, work_s, failures);
    sum += outcome.seconds;
    squares += outcome.seconds * outcome.seconds;
    result.failures += static_cast<double>(outcome.failures) / runs;
  }
  // Of all work by all time: a mean of each run's share would be too high by what runs differ.
  const double mean_s = sum / runs;
  const double variance = std::max(squares / runs - mean_s * mean_s, 0.0);
  result.goodput_fraction = work_s / mean_s;
  result.standard_error = result.goodput_fraction * std::sqrt(variance / runs) / mean_s;
  return result;
}

}  // namespace nqd::planner
