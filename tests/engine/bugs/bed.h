// What the tests of known bugs share: small models whose shapes are awkward, any mesh of threads,
// and one step on given sequences whose gradients come back whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/data/training_data.h"
#include "engine/parity/compare.h"
#include "engine/train/step_totals.h"
#include "planner/spec.h"

namespace nqd::bugs {

// Four layers, 24 wide, 12 heads, a tied head, 12 sequences a step: tp of 2, 3 and 4 (three with
// tp_slices of 6 or 12) and dp of up to 12. Float32, canonical numerics, three steps.
planner::Config tiny_gpt();
// Rotary positions, SwiGLU, four key heads for twelve query heads, a head of its own.
planner::Config tiny_llama();

struct Mesh {
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  planner::Engine engine = planner::Engine::kDdp;
  planner::Schedule schedule = planner::Schedule::k1F1B;
  std::int64_t vpp = 1;
  bool sequence_parallel = false;
  std::int64_t hsdp_shard = 0;
};
planner::Config on(planner::Config config, const Mesh& mesh);
std::string words(const planner::Config& config);

// The rules that the config breaks, "; " between them; empty: it runs.
std::string violations(const planner::Config& config);

// Random text of the model's vocabulary, the same for every mesh, in files of `folder`.
// `train_samples`: how many sequences there are; 0: as many as the steps take.
engine::TrainingData make_data(const std::filesystem::path& folder, const planner::Config& config,
                               std::int64_t train_samples = 0);
// Trains on random text of the model's vocabulary, the same for every mesh. `train_samples`: how
// many sequences there are; 0: as many as the steps take.
engine::ParityRun run(const planner::Config& config, std::int64_t train_samples = 0);
// Both ended well, no audit failed, and every loss, norm and weight has the same bits.
void check_same(const engine::ParityRun& found, const engine::ParityRun& reference);
// Runs each mesh and compares it with one rank.
void check_meshes(const planner::Config& config, const std::vector<Mesh>& meshes);

// One sequence; a target of −1 is masked.
struct Sequence {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};
// Random; of sequence i all but the first `valid[i]` targets are masked.
std::vector<Sequence> ragged(const planner::Config& config, const std::vector<std::int64_t>& valid);

using Tensors = std::map<std::string, std::vector<float>>;
struct Step {
  Tensors gradients;  // of the sum of losses, whole tensors
  engine::StepTotals totals;
};
// Forward and backward of step `step` (dropout's key) over the global batch. Ranks that hold the
// same gradient must hold the same bits of it. `weights`: those to start from, by name; others are
// as the engine initialises them.
Step one_step(const planner::Config& config, const std::vector<Sequence>& batch,
              std::int64_t step = 1, const Tensors& weights = {});
void check_same(const Step& found, const Step& reference);
// ‖g − r‖ ÷ ‖r‖ ≤ 4 · 1.03^(L + 1 − l) · epsilon for each tensor of layer l: rounding grows with
// the depth that a gradient has come through. The rule is Megatron-LM's
// (tests/unit_tests/test_optimizer_grads_match.py).
void check_close(const planner::Config& config, const Tensors& found, const Tensors& reference,
                 double epsilon);

}  // namespace nqd::bugs
