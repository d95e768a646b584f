// What checkpoints and failures cost a run. Times in seconds.
#pragma once

namespace nqd::planner {

// Share of the time that goes into saving: δ/(τ + δ), a save of δ after every τ of useful work that
// stops meanwhile. 4 minutes after 30: 11.8 %.
double checkpoint_overhead(double save_s, double interval_s);

// Useful work between saves that loses least to saves of δ and to failures, M seconds apart on
// average. Young, "A first order approximation to the optimum checkpoint interval" (1974):
// √(2δM).
double young_interval_s(double save_s, double mtbf_s);
// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (2006):
// √(2δM)·(1 + √(δ/2M)/3 + δ/(18M)) − δ for δ < 2M, else M.
double daly_interval_s(double save_s, double mtbf_s);

// Failures come at any moment of an interval alike, so that half of it is lost on average.
inline double mean_lost_s(double interval_s) { return interval_s / 2; }

// Price of `seconds` of `gpus` devices at `price_per_gpu_hour`.
inline double cost_of(double seconds, double gpus, double price_per_gpu_hour) {
  return seconds / 3600 * gpus * price_per_gpu_hour;
}

struct Resilience {
  double save_s = 0;      // δ, training stops meanwhile
  double interval_s = 0;  // τ, useful work between saves
  double mtbf_s = 0;      // M, mean time between failures of the whole job
  double restart_s = 0;   // R, from a failure to the next useful step
};
// Useful share of the time, to first order in 1/M: (1 − δ/(τ+δ))·(1 − (R + (τ+δ)/2)/M), and never
// below 0.
double goodput(const Resilience& resilience);
// The same without approximation where failures come at random (exponential times between them),
// also in saves and restarts. Daly (2006), equation 20: an interval takes
// M·e^(R/M)·(e^((τ+δ)/M) − 1) on average.
double exact_goodput(const Resilience& resilience);
// The interval of the greatest exact goodput, to 1e-6 of itself; of `resilience.interval_s` it
// makes no use.
double best_interval_s(const Resilience& resilience);

}  // namespace nqd::planner
