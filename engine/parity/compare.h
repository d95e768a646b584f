// One run of a parity matrix, and what it says beside its reference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/training_data.h"
#include "engine/parity/matrix.h"
#include "engine/records.h"
#include "engine/train/mutant.h"

namespace nqd::engine {

struct ParityRun {
  std::vector<double> losses;      // by step
  std::vector<double> grad_norms;  // by step
  double heldout_loss = 0;         // after the last step
  std::string weights_sha256;      // of all tensors, whole, in the order of planner::parameters
  // Whole tensors by name; empty for canonical runs of other processes, whose evidence has the
  // digest alone.
  std::map<std::string, std::vector<float>> weights;
  std::vector<std::string> audit_failures;  // categories whose measured is not the predicted
  std::string error;                        // of a run that ended early; else empty
};

enum class ParityVerdict : std::uint8_t { kBitIdentical, kWithinEnvelope, kFailed };
std::string_view name(ParityVerdict verdict);  // "bit-identical", "within-envelope", "failed"

struct ParityOutcome {
  ParityVerdict verdict = ParityVerdict::kFailed;
  // |loss − reference| ÷ |reference|, over steps and the held-out loss.
  double max_rel_loss_diff = 0;
  // ‖w − reference‖ ÷ ‖reference‖ of the tensor where it is largest; 0 for equal digests, −1 when
  // the weights of one of them are not at hand.
  double max_rel_weight_diff = 0;
  double max_rel_grad_norm_diff = 0;  // likewise, over steps
  std::string reason;                 // of a failure
};

// How far a run in fast numerics may be from its reference.
struct ParityEnvelope {
  double loss = 0;
  double weights = 0;
  double grad_norm = 0;
};
ParityEnvelope envelope_of(planner::Precision precision);

// Canonical numerics: equal bits of every loss, norm and weight, or failed. Fast: within the
// envelope of the precision. A run with an audit that is not exact has failed in any case.
ParityOutcome compare(const ParityCell& cell, const ParityRun& run, const ParityRun& reference);

// Trains the config on threads; what rank 0 has to say. `mutant`: of a broken engine, in tests.
ParityRun run_on_threads(const planner::Config& config, const TrainingData& data,
                         Mutant mutant = Mutant::kNone);
// The same for a cell. What it goes on from is trained first and saved in `folder`, a new one;
// losses and audits are those of both runs.
ParityRun run_on_threads(const ParityCell& cell, const TrainingData& data,
                         const std::filesystem::path& folder, Mutant mutant = Mutant::kNone);
// Of a run and the one that went on from its save.
ParityRun joined(ParityRun first, ParityRun second);
// What the result of a whole or a part of a run says; without weights.
ParityRun parity_run_of(const TrainResult& result);

}  // namespace nqd::engine
