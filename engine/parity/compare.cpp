#include "engine/parity/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nqd::engine {
namespace {

double relative(double value, double reference) {
  if (value == reference) return 0;
  const double difference = std::abs(value - reference) / std::abs(reference);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

double loss_difference(const ParityRun& run, const ParityRun& reference) {
  double worst = relative(run.heldout_loss, reference.heldout_loss);
  for (std::size_t i = 0; i < run.losses.size(); ++i) {
    worst = std::max(worst, relative(run.losses[i], reference.losses[i]));
  }
  return worst;
}

double grad_norm_difference(const ParityRun& run, const ParityRun& reference) {
  double worst = 0;
  for (std::size_t i = 0; i < run.grad_norms.size(); ++i) {
    worst = std::max(worst, relative(run.grad_norms[i], reference.grad_norms[i]));
  }
  return worst;
}

double tensor_difference(const std::vector<float>& tensor, const std::vector<float>& reference) {
  if (tensor.size() != reference.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    const double d = static_cast<double>(tensor[i]) - reference[i];
    difference += d * d;
    norm += static_cast<double>(reference[i]) * reference[i];
  }
  if (difference == 0) return 0;
  return norm == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(difference / norm);
}

double weight_difference(const ParityRun& run, const ParityRun& reference) {
  if (run.weights_sha256 == reference.weights_sha256) return 0;
  if (run.weights.empty() || reference.weights.empty()) return -1;
  double worst = 0;
  for (const auto& [name, tensor] : reference.weights) {
    const auto found = run.weights.find(name);
    if (found == run.weights.end()) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, tensor_difference(found->second, tensor));
  }
  return worst;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

bool same_bits(const ParityRun& run, const ParityRun& reference) {
  return run.losses == reference.losses && run.grad_norms == reference.grad_norms &&
         run.heldout_loss == reference.heldout_loss &&
         run.weights_sha256 == reference.weights_sha256;
}

}  // namespace

std::string_view name(ParityVerdict verdict) {
  switch (verdict) {
    case ParityVerdict::kBitIdentical:
      return "bit-identical";
    case ParityVerdict::kWithinEnvelope:
      return "within-envelope";
    case ParityVerdict::kFailed:
      return "failed";
  }
  return "failed";
}

ParityEnvelope envelope_of(planner::Precision precision) {
  return precision == planner::Precision::kFloat32 ? ParityEnvelope{1e-5, 1e-3, 1e-5}
                                                   : ParityEnvelope{2e-3, 3e-1, 1e-2};
}

ParityOutcome compare(const ParityCell& cell, const ParityRun& run, const ParityRun& reference) {
  ParityOutcome outcome;
  if (!run.error.empty() || !reference.error.empty()) {
    outcome.reason = run.error.empty() ? "the reference ended early: " + reference.error
                                       : "ended early: " + run.error;
    return outcome;
  }
  if (run.losses.size() != reference.losses.size() ||
      run.grad_norms.size() != reference.grad_norms.size()) {
    outcome.reason = "ran " + std::to_string(run.losses.size()) + " of " +
                     std::to_string(reference.losses.size()) + " steps";
    return outcome;
  }
  outcome.max_rel_loss_diff = loss_difference(run, reference);
  outcome.max_rel_weight_diff = weight_difference(run, reference);
  outcome.max_rel_grad_norm_diff = grad_norm_difference(run, reference);
  const ParityEnvelope envelope = envelope_of(cell.config.train.precision);
  if (!run.audit_failures.empty()) {
    outcome.reason = "audit: " + joined(run.audit_failures);
  } else if (same_bits(run, reference)) {
    outcome.verdict = ParityVerdict::kBitIdentical;
  } else if (cell.config.numerics.mode == collectives::Numerics::kCanonical) {
    outcome.reason = "canonical numerics, but other bits than the reference";
  } else if (outcome.max_rel_loss_diff > envelope.loss) {
    outcome.reason = "the loss is outside the envelope";
  } else if (outcome.max_rel_grad_norm_diff > envelope.grad_norm) {
    outcome.reason = "a gradient norm is outside the envelope";
  } else if (outcome.max_rel_weight_diff > envelope.weights || outcome.max_rel_weight_diff < 0) {
    outcome.reason = "the weights are outside the envelope";
  } else {
    outcome.verdict = ParityVerdict::kWithinEnvelope;
  }
  return outcome;
}

}  // namespace nqd::engine
