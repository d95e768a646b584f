// Real runs: small matrices that must be bit-identical, and broken engines that must not be.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/training_data.h"
#include "engine/parity/compare.h"
#include "engine/parity/data.h"
#include "engine/parity/matrix.h"
#include "tests/engine/parity/parity_configs.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using engine::Mutant;
using engine::ParityCell;
using engine::ParityVerdict;

namespace {

// A config with generated text, which lives as long as this.
class Bed {
 public:
  explicit Bed(const std::string& name) : Bed(parity_config(name)) {}
  explicit Bed(const planner::Config& base)
      : config(engine::with_generated_data(base, folder_.path())),
        data(engine::open_training_data(config, true)) {}

 private:
  nqd::testing::TemporaryFolder folder_;

 public:
  planner::Config config;
  engine::TrainingData data;

  engine::ParityRun run(const ParityCell& cell, Mutant mutant = Mutant::kNone) {
    return engine::run_on_threads(cell, data, folder_ / ("run" + std::to_string(runs_++)), mutant);
  }
  // Of the cells that make so many steps.
  const engine::ParityRun& reference(std::int64_t steps) {
    engine::ParityRun& run = references_[steps];
    if (!run.losses.empty()) return run;
    planner::Config one = config;
    one.train.steps = steps;
    run = engine::run_on_threads(one, data);
    REQUIRE(run.error == "");
    REQUIRE(static_cast<std::int64_t>(run.losses.size()) == steps);
    if (steps == config.train.steps) CHECK(run.losses.back() < run.losses.front());
    return run;
  }

 private:
  int runs_ = 0;
  std::map<std::int64_t, engine::ParityRun> references_;
};

void check_matrix(const std::string& name) {
  Bed bed(name);
  for (const ParityCell& cell : engine::parity_cells(bed.config, engine::ParityDepth::kQuick)) {
    const engine::ParityOutcome outcome =
        engine::compare(cell, bed.run(cell), bed.reference(cell.config.train.steps));
    CAPTURE(cell.mesh());
    CAPTURE(cell.schedule());
    CAPTURE(cell.resumed_from());
    CAPTURE(std::string(planner::name(cell.config.parallel.engine)));
    CHECK(outcome.reason == "");
    CHECK(outcome.verdict == ParityVerdict::kBitIdentical);
  }
}

// The quick cells, and of the default ones those of two ranks in canonical float32, which is every
// engine, schedule and direction by itself.
std::vector<ParityCell> cells_to_break(const planner::Config& config) {
  std::vector<ParityCell> cells = engine::parity_cells(config, engine::ParityDepth::kQuick);
  std::set<std::string> seen;
  for (ParityCell& cell : engine::parity_cells(config, engine::ParityDepth::kDefault)) {
    const planner::Config& one = cell.config;
    const bool plain = one.numerics.mode == collectives::Numerics::kCanonical &&
                       one.train.precision == planner::Precision::kFloat32 &&
                       one.train.recompute == planner::Recompute::kNone && !cell.under_mpi;
    if (one.parallel.ranks() == 2 && plain) cells.push_back(std::move(cell));
  }
  std::erase_if(cells, [&](const ParityCell& cell) {
    return cell.under_mpi || cell.saved_by ||
           !seen.insert(std::string(planner::name(cell.config.parallel.engine)) + cell.mesh() +
                        cell.schedule())
                .second;
  });
  return cells;
}

// Those that change what the mesh does.
std::vector<Mutant> mutants_of(const planner::ParallelSpec& mesh) {
  std::vector<Mutant> mutants = {Mutant::kWrongScale, Mutant::kLostMicroBatch, Mutant::kStaleShard};
  const auto add = [&](bool concerned, Mutant mutant) {
    if (concerned) mutants.push_back(mutant);
  };
  add(mesh.dp > 1, Mutant::kMissingSum);
  add(mesh.engine == planner::Engine::kHsdp, Mutant::kMissingReplicaSum);
  add(mesh.engine != planner::Engine::kDdp, Mutant::kStaleGather);
  add(mesh.tp > 1, Mutant::kMissingTensorSum);
  add(mesh.sequence_parallel, Mutant::kMissingNormSum);
  add(mesh.pp > 1, Mutant::kMissingTiedSum);
  add(mesh.pp > 1, Mutant::kSwappedStages);
  add(mesh.pp > 1, Mutant::kLateInput);
  return mutants;
}

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all;
  for (auto i = static_cast<int>(Mutant::kNone) + 1; i <= static_cast<int>(Mutant::kLateInput);
       ++i) {
    all.push_back(static_cast<Mutant>(i));
  }
  return all;
}

// Of the numbers alone: what a missing message does to the audit is left out.
engine::ParityOutcome outcome_of(const ParityCell& cell, const Bed& bed, Mutant mutant,
                                 const engine::ParityRun& reference) {
  engine::ParityRun run = engine::run_on_threads(cell.config, bed.data, mutant);
  CHECK(run.error == "");
  run.audit_failures.clear();
  return engine::compare(cell, run, reference);
}

// Two steps: what is stale after an update shows in the second. Half the layers and sequences of
// the config, which still divide every way.
void check_teeth(collectives::Numerics numerics) {
  planner::Config small = gpt_tied();
  small.model.layers = 4;
  small.train.global_batch_size = 12;
  small.train.steps = 2;
  const Bed bed(small);
  planner::Config alone = bed.config;
  alone.numerics.mode = numerics;
  const engine::ParityRun reference = engine::run_on_threads(alone, bed.data);
  std::set<std::string> kinds;
  std::set<Mutant> found;
  for (ParityCell& cell : cells_to_break(bed.config)) {
    cell.config.numerics.mode = numerics;
    const std::string kind = std::string(planner::name(cell.config.parallel.engine)) + " " +
                             cell.mesh() + " " + cell.schedule();
    CAPTURE(kind);
    CHECK(outcome_of(cell, bed, Mutant::kNone, reference).reason == "");
    for (const Mutant mutant : mutants_of(cell.config.parallel)) {
      CAPTURE(static_cast<int>(mutant));
      CHECK(outcome_of(cell, bed, mutant, reference).verdict == ParityVerdict::kFailed);
      found.insert(mutant);
    }
    kinds.insert(kind);
  }
  for (const char* kind :
       {"ddp 2x1x1 none", "zero1 2x1x1 none", "zero2 2x1x1 none", "zero3 3x1x1 none",
        "hsdp 4x1x1/2 none", "ddp 1x2x1 none", "ddp 1x2x1+sp none", "ddp 1x1x2 gpipe",
        "ddp 1x1x2 1f1b", "ddp 1x1x2 interleaved/2", "ddp 1x1x2 zb-h1", "zero2 2x2x2 zb-h1"}) {
    CHECK_MESSAGE(kinds.count(kind) == 1, kind);
  }
  CHECK(found.size() == all_mutants().size());
  const ParityCell single{alone};
  for (const Mutant mutant : all_mutants()) {
    CAPTURE(static_cast<int>(mutant));
    CHECK(outcome_of(single, bed, mutant, reference).verdict == ParityVerdict::kBitIdentical);
  }
}

}  // namespace

TEST_CASE("gpt: every kind of parallelism has the bits of one rank") { check_matrix("gpt-tied"); }

TEST_CASE("llama: every kind of parallelism has the bits of one rank") {
  check_matrix("llama-gqa");
}

TEST_CASE("dropout and an odd vocabulary: every kind of parallelism has the bits of one rank") {
  check_matrix("gpt-dropout");
}

TEST_CASE("an encoder of time series: every kind of parallelism has the bits of one rank") {
  check_matrix("crop");
}

TEST_CASE("a broken engine fails the comparison, whichever it is; a single rank is not touched") {
  check_teeth(collectives::Numerics::kCanonical);
}

TEST_CASE("a broken engine leaves the envelope of fast numerics") {
  check_teeth(collectives::Numerics::kFast);
}

TEST_CASE("a run that goes on without all that was saved fails the comparison") {
  Bed bed("gpt-tied");
  std::set<std::string> savers;
  for (const ParityCell& cell : engine::parity_cells(bed.config, engine::ParityDepth::kQuick)) {
    if (cell.under_mpi || !cell.saved_by) continue;
    for (const Mutant mutant :
         {Mutant::kLostMoments, Mutant::kLostPosition, Mutant::kLostSchedule}) {
      const engine::ParityRun run = bed.run(cell, mutant);
      CAPTURE(cell.resumed_from());
      CAPTURE(static_cast<int>(mutant));
      CHECK(run.error == "");
      const engine::ParityRun& whole = bed.reference(cell.config.train.steps);
      CHECK(engine::compare(cell, run, whole).verdict == ParityVerdict::kFailed);
      // What was made before the save is not what differs.
      CHECK(run.losses.size() == whole.losses.size());
      CHECK(run.losses[0] == whole.losses[0]);
    }
    savers.insert(cell.resumed_from());
  }
  CHECK(savers == std::set<std::string>{"zero1 2x1x1 after step 2", "zero3 3x1x1 after step 2",
                                        "zero2 2x2x2 zb-h1 after step 2"});
}

TEST_CASE("a verdict follows from bits in canonical numerics and from the envelope in fast ones") {
  ParityCell cell;
  cell.config = gpt_tied();
  engine::ParityRun reference;
  reference.losses = {4.0, 3.0};
  reference.grad_norms = {1.0, 1.0};
  reference.heldout_loss = 3.5;
  reference.weights_sha256 = "a";
  reference.weights = {{"w", {3.0F, 4.0F}}};
  CHECK(engine::compare(cell, reference, reference).verdict == ParityVerdict::kBitIdentical);

  engine::ParityRun near = reference;
  near.losses[1] = 3.0 * (1 + 1e-6);
  near.weights_sha256 = "b";
  near.weights["w"][0] += 1e-4F;
  const engine::ParityOutcome canonical = engine::compare(cell, near, reference);
  CHECK(canonical.verdict == ParityVerdict::kFailed);
  CHECK(canonical.max_rel_loss_diff == doctest::Approx(1e-6).epsilon(1e-3));
  CHECK(canonical.max_rel_weight_diff == doctest::Approx(1e-4 / 5).epsilon(1e-2));
  cell.config.numerics.mode = collectives::Numerics::kFast;
  CHECK(engine::compare(cell, near, reference).verdict == ParityVerdict::kWithinEnvelope);

  near.grad_norms[1] = 1 + 1e-6;
  CHECK(engine::compare(cell, near, reference).verdict == ParityVerdict::kWithinEnvelope);
  near.grad_norms[1] = 2;
  CHECK(engine::compare(cell, near, reference).verdict == ParityVerdict::kFailed);
  near.grad_norms[1] = 1;
  near.losses[1] = 3.1;
  CHECK(engine::compare(cell, near, reference).verdict == ParityVerdict::kFailed);
  near = reference;
  near.losses.pop_back();
  CHECK(engine::compare(cell, near, reference).verdict == ParityVerdict::kFailed);
  near = reference;
  near.audit_failures = {"weights"};
  CHECK(engine::compare(cell, near, reference).verdict == ParityVerdict::kFailed);
  near = reference;
  near.error = "lost";
  CHECK(engine::compare(cell, near, reference).verdict == ParityVerdict::kFailed);
}
