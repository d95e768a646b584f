// Everything that one rank of a training run holds, allocated before the first step.
#pragma once

#include <memory>
#include <string>

#include "base/ledger.h"
#include "engine/batches.h"
#include "engine/checkpoint/reader.h"
#include "engine/data/training_data.h"
#include "engine/device/device.h"
#include "engine/models/transformer/activation_arena.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/parallel/pipeline/stage_runner.h"
#include "engine/parallel/store/unit_store.h"
#include "engine/train/mutant.h"
#include "planner/spec.h"

namespace nqd::engine {

class RankState {
 public:
  // `groups` and the ledger must outlive it. Weights are initialised from train.seed:
  // N(0, 0.02²), projections back into the residual stream N(0, (0.02/√(2L))²), biases 0, norms 1;
  // each element a pure function of the seed, the tensor's name and its index there. Or from
  // `fill` where there is one; or, with the optimizer's state, from `saved`. Computes on `device`;
  // null: on train.threads threads of the CPU.
  RankState(const planner::Config& config, MeshGroups& groups, MemoryLedger& ledger, Mutant mutant,
            const UnitStore::Fill& fill, const CheckpointReader* saved = nullptr,
            std::unique_ptr<Device> device = nullptr);

  const Device& device() const { return *device_; }
  // Why the passes of steps are not repeated (StageRunner::repeat_passes), a clause; empty where
  // they are.
  const std::string& why_plain() const { return why_plain_; }
  // From now on they are not, for this reason.
  void run_plainly(std::string why);
  UnitStore& store() { return store_; }
  StageRunner& runner() { return *runner_; }
  const StageRunner& runner() const { return *runner_; }
  // Of its buffers, those that lie in shared memory, which no resident set shows.
  std::uint64_t shared_bytes() const { return shared_bytes_; }
  // Where fixed products pack their operands: workspace that no plan counts, as that of a library.
  std::uint64_t packing_bytes() const;

  // Collective over the mesh. One optimizer step with the gradients of train_step
  // (engine/train/update.h).
  void update(std::int64_t step, double lr, double gradient_scale);
  // Collective over the mesh. A step without an update: it sends what every other sends.
  void skip_update() { store_.publish(); }
  // Collective over the mesh. The gradients of step `step`, summed, from batch `batch` of the data;
  // both are 1-based. Its loss is the runner's.
  void train_step(const TrainingData& data, std::int64_t step, std::int64_t batch,
                  float loss_scale);
  // Collective over the mesh. eval_batches micro-batches of held-out text, evenly apart, each
  // sequence once, shared by the dp ranks; all of them make as many calls.
  LossSum evaluate(const TrainingData& data);

 private:
  StoreGroups store_groups(const MeshGroups& groups) const;
  std::vector<TransformerChunk> make_chunks(const MeshGroups& groups);
  bool is_last_of_several() const;
  void forget_moments();  // a mutant

  const planner::Config& config_;
  const planner::RankPlace place_;
  const Mutant mutant_;
  std::uint64_t shared_bytes_;
  std::unique_ptr<Device> device_;
  ActivationArena arena_;
  UnitStore store_;
  MicroBatch batch_;
  std::vector<std::int32_t> masked_;  // of a mutant
  std::unique_ptr<StageRunner> runner_;
  std::string why_plain_;
};

}  // namespace nqd::engine
