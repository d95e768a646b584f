// `nqd parity --json` and its evidence document, and the matrix as text.
#pragma once

#include <string>
#include <vector>

#include "engine/parity/compare.h"
#include "reports/envelope.h"

namespace nqd::reports {

struct ParityCase {
  std::string config;  // path as given
  engine::ParityCell cell;
  engine::ParityOutcome outcome;
  std::vector<double> losses;  // by step
  double heldout_loss = 0;
  double seconds = 0;  // of the run
};

struct ParityDataset {
  std::string config;  // path as given
  std::string digest;
  bool synthetic = false;
};

// {…envelope, "datasets": [{config, digest, synthetic}], "cases": [{config, engine, mesh,
// precision, recompute, schedule, launcher, threads, numerics, verdict, max_rel_loss_diff,
// max_rel_weight_diff, max_rel_grad_norm_diff, resumed_from, reason, losses, heldout_loss,
// seconds}], "passed", "failed"}. max_rel_weight_diff is null where the weights were not at hand;
// resumed_from is that of ParityCell.
std::string parity_json(const Envelope& envelope, const std::vector<ParityDataset>& datasets,
                        const std::vector<ParityCase>& cases);

// A line for each config, engine, precision, numerics, recomputation and beginning ("new",
// "resumed" on the mesh that saved, "resharded" on another), with the number of cells
// of each verdict and the largest differences; then a line for each failed cell with its reason;
// last "N passed, N failed". Ends in a newline.
std::string parity_text(const std::vector<ParityCase>& cases);

}  // namespace nqd::reports
