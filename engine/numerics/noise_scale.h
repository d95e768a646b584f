// The gradient noise scale: the batch beyond which more sequences a step save few steps (McCandlish
// et al., "An Empirical Model of Large-Batch Training", 2018, arXiv:1812.06162, appendix A.1).
#pragma once

#include <optional>

namespace nqd::engine {

class NoiseScale {
 public:
  // Of one step: the mean over micro-batches of |their mean gradient|², |the mean gradient of the
  // whole step|², and the sequences of one micro-batch and of the step, which are more.
  void add(double micro_batch_square, double step_square, double micro_batch_sequences,
           double step_sequences);

  // tr(Σ)/|G|² in sequences, both averaged over the steps before they are divided. Empty while
  // nothing was added, or where the steps were too few or too noisy to show a gradient.
  std::optional<double> sequences() const;

  // What it has added up, to be saved and set again.
  double noise() const { return noise_; }
  double signal() const { return signal_; }
  void restore(double noise, double signal) {
    noise_ = noise;
    signal_ = signal;
  }

 private:
  double noise_ = 0;   // Σ of the estimates of tr(Σ) of one sequence
  double signal_ = 0;  // Σ of those of |G|²
};

}  // namespace nqd::engine
