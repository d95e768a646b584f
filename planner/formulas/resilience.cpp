#include "planner/formulas/resilience.h"

#include <algorithm>
#include <cmath>

namespace nqd::planner {

double checkpoint_overhead(double save_s, double interval_s) {
  return save_s / (interval_s + save_s);
}

double young_interval_s(double save_s, double mtbf_s) { return std::sqrt(2 * save_s * mtbf_s); }

double daly_interval_s(double save_s, double mtbf_s) {
  if (save_s >= 2 * mtbf_s) return mtbf_s;
  const double half = save_s / (2 * mtbf_s);
  return young_interval_s(save_s, mtbf_s) * (1 + std::sqrt(half) / 3 + half / 9) - save_s;
}

double goodput(const Resilience& r) {
  const double cycle_s = r.interval_s + r.save_s;
  const double lost = (r.restart_s + mean_lost_s(cycle_s)) / r.mtbf_s;
  return std::max(0.0, (1 - checkpoint_overhead(r.save_s, r.interval_s)) * (1 - lost));
}

double exact_goodput(const Resilience& r) {
  const double cycle = (r.interval_s + r.save_s) / r.mtbf_s;
  return r.interval_s / r.mtbf_s * std::exp(-r.restart_s / r.mtbf_s) / std::expm1(cycle);
}

// τ/(e^((τ+δ)/M) − 1) rises to one maximum, where 1 − τ/M = e^−((τ+δ)/M), and falls behind it.
double best_interval_s(const Resilience& r) {
  if (r.save_s <= 0) return 0;
  double low = 0;
  double high = r.mtbf_s;
  while (high - low > 1e-6 * high) {
    const double middle = (low + high) / 2;
    const bool rises = 1 - middle / r.mtbf_s > std::exp(-(middle + r.save_s) / r.mtbf_s);
    (rises ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace nqd::planner
