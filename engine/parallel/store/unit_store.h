// Weights, gradients and optimizer state of one rank's units under ddp, zero1, zero2, zero3 and
// hsdp: where they lie is planner/layout/state_shape.h, which buffers there are
// planner/layout/state_buffers.h. All memory is allocated by the constructor.
//
// A step:
//   begin_step
//   every micro-batch: acquire, compute, release for each unit, forward and backward; where
//   backward
//     computes weight gradients, begin_gradient, add, end_gradient
//   finish_step; gradients are summed; squared_gradients; for_each_shard updates weights; publish
//
// Communication, calls a step, m micro-batches; units without elements have none:
//   ddp     all_reduce of every bucket (state_buffers.h: unit_buckets), once its units have had all
//           their gradients
//   zero1   reduce_scatter of every unit, likewise; all_gather of every unit's weights by publish
//   zero2   m reduce_scatters a unit, all_gather of every unit's weights by publish
//   zero3   an all_gather for every acquire of a unit that is not held; m reduce_scatters a unit
//   hsdp    as zero3 in the shard group; all_reduce of every unit's shard over the replicas
//   Canonical numerics: with S no power of two, all_to_all in place of reduce_scatter in zero2,
//   zero3 and hsdp; where replicas do not sum evenly (sums_evenly), ddp, zero1 and hsdp exchange
//   partial sums (collectives/canonical/canonical.h), in finish_step.
//   A tied head on another stage than the embedding: finish_step all_reduces the own part of the
//   table's gradient between the two ends.
// All start as soon as they can and run beside the caller's work, on the workers of the groups'
// communicators, which nothing else may use meanwhile.
//
// Canonical numerics: the gradient of a step has the bits of the tree over its leaves
// (collectives/canonical/tree.h) in the order of leaf_index, plus, for a tied table, the tree over
// the head's leaves, whatever the engine and the number of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "engine/numerics/exact_sum.h"
#include "engine/parallel/store/gradient_store.h"
#include "engine/parallel/store/store_layout.h"
#include "engine/parallel/store/store_memory.h"
#include "engine/parallel/store/unit_runs.h"
#include "engine/parallel/store/weight_store.h"

namespace nqd::engine {

// Neighbouring elements of one tensor that this rank updates, in device memory. Padding is in none.
struct ShardRun {
  const planner::LocalTensor* tensor = nullptr;
  int unit = 0;
  std::int64_t local = 0;      // the first element's index in the local tensor
  std::span<float> weights{};  // float32: the master where weights are 16-bit
  std::span<float> gradient{};
  std::vector<std::span<float>> moments{};
  std::span<float> ema{};  // empty without
  StoredWeights stored{};  // where the weights are of 16 bits beside their master
};

// Whether the update has left 16-bit weights where ShardRun::stored is.
enum class Narrowed : bool { kNot, kByUpdate };

class UnitStore {
 public:
  // Sets elements begin … begin + out.size() − 1 of the full tensor, in host memory. Must not
  // depend on how a tensor is cut into calls.
  using Fill = std::function<void(const planner::TensorSpec& tensor, std::int64_t begin,
                                  std::span<float> out)>;

  // `units` are those of all chunks of the rank's stage (planner::stage_units), `tp_rank` its place
  // among the ranks that hold other parts of them. All memory but snapshot() is the device's.
  // Groups, ledger and device must outlive the store. Throws Error (kUsage, NQD2050) for groups
  // that are not those of the shape, and any call below for one out of order.
  UnitStore(const planner::StateShape& shape, std::vector<planner::LocalUnit> units,
            const StoreGroups& groups, std::int64_t tp_rank, MemoryLedger* ledger, Device& device);

  const std::vector<planner::LocalUnit>& units() const { return layout_.units; }
  const planner::StateShape& shape() const { return layout_.shape; }
  Device& device() const { return layout_.device; }
  // Of dp.
  std::int64_t rank() const { return layout_.rank; }
  // Which of the parts of each unit is its own; 0 where units are not cut.
  std::int64_t part() const { return layout_.part; }

  // Weights and EMA of every unit; the same bits on any mesh. Local, but for a publish that it
  // waits for.
  void initialize(const Fill& fill);

  // The unit's elements, as they lie in planner::LocalUnit, in the type of the shape; valid until
  // the release that matches. A tied head without weights of its own gets the embedding's. Under
  // zero3 and hsdp collective over the shard group, unless the unit is held or was prefetched.
  const std::byte* acquire(int unit);
  void release(int unit);
  // Under zero3 and hsdp starts the all_gather of a unit that is not held, where a buffer of its
  // role is free: then collective. Else nothing.
  void prefetch(int unit);

  void begin_step();
  // Where the gradient of the unit's next micro-batch goes (its n elements, float32), to be added
  // to. Micro-batches of a unit come in ascending order. Again before end_gradient: the same.
  float* begin_gradient(int unit);
  // The same for a caller that sets matrices where the gradient is fresh: then only tensors of one
  // dimension and the padding are zero.
  OpenGradient open_gradient(int unit);
  // The micro-batch's contribution is whole. May start a collective: all ranks of the groups call
  // it in the same order.
  void end_gradient(int unit);
  // In the place of all that belongs to the unit's next micro-batch, from begin_gradient to
  // end_gradient, where the device has repeated what they ask for (Device::repeat). Not where
  // gradients are sharded, nor while watches_gradients().
  void count_repeated_gradient(int unit);
  // The first micro-batch whose gradients of all units are asked for as those of this one are: with
  // the same addresses and, where they are fresh, cleared. Not where gradients are sharded.
  std::int64_t first_alike(std::int64_t micro_batch) const {
    return layout_.shape.canonical() ? micro_batch : std::min<std::int64_t>(micro_batch, 1);
  }
  // Collective. The step's gradients are summed. Throws where a unit has not had all of its
  // micro-batches. Returns the seconds that this rank has waited since the last call: communication
  // that nothing hid.
  double finish_step();

  // Σ g² over the elements that are this rank's to count: over all ranks of the world, each
  // parameter once. A replicated tensor is counted by tp rank 0, a tied table as embedding, padding
  // never. After finish_step. Waits for the device.
  ExactSum squared_gradients();

  // For the gradient noise scale, while switched on: Σ over micro-batches of |their gradient|², of
  // the elements that this rank is to count of each, but for the token table, whose two uses may be
  // apart; and of how many. All micro-batches; in fast numerics, ddp and zero1 add a step's later
  // ones to the first, which is then the only one.
  void measure_leaves(bool on) { measures_ = on; }
  // Waits.
  const ExactSum& squared_leaves();
  std::int64_t measured_leaves() const;
  // squared_gradients without the token table.
  ExactSum squared_gradients_but_table();
  // The first gradient that is NaN or infinite among those that this rank updates: "layers.3.…
  // element 17". After finish_step.
  std::optional<std::string> first_non_finite() const;

  // What this rank updates. Valid while the store lives, gradients after finish_step.
  void for_each_shard(const std::function<void(const ShardRun&)>& f);
  // The same, of what this rank saves (unit_runs.h).
  void for_each_saved(const std::function<void(const ShardRun&)>& f);
  // Room of the host for a copy of what this rank saves; empty where the shape has none.
  std::span<float> snapshot() const;
  // Collective under zero1 and zero2. After the update: 16-bit weights follow their master, where
  // they have not, and ranks get each other's parts (acquire waits for what it needs).
  void publish(Narrowed narrowed = Narrowed::kNot);

  void seed_fault_for_test(StoreFault fault);
  // While on, every matrix that this rank counts gets an infinite gradient.
  void overflow_for_test(bool on) { overflows_ = on; }
  // Whether end_gradient does more in this step than in others.
  bool watches_gradients() const { return measures_ || overflows_; }

  // Appends the float32 weights (the master where there is one) of the elements of a tensor that
  // this rank updates, ascending, padding left out.
  void append_weights(int unit, const planner::LocalTensor& tensor, std::vector<float>& out) const;

 private:
  const UnitPlace& place(int unit) const { return layout_.places[static_cast<std::size_t>(unit)]; }
  const planner::LocalTensor& tensor_of(const UnitRun& run) const;
  ShardRun shard_of(const UnitRun& run) const;
  void fill_piece(int unit, const planner::TensorSpec& tensor, std::int64_t full,
                  std::int64_t begin, std::int64_t count, const Fill& fill);
  float* state(const char* name, std::size_t index, int unit, std::int64_t begin) const;
  // Float32 weights from element `begin` of the padded unit on, which this rank updates.
  float* float_weights(int unit, std::int64_t begin) const;
  float* gradient(int unit, std::int64_t begin) const;
  void narrow_own_weights();
  bool is_table(int unit) const;
  // Whether this rank counts the run's elements in norms.
  bool counts(const UnitRun& run) const;
  ExactSum squared(bool with_table);
  void measure(int unit, const float* leaf);
  void overflow(int unit);

  StoreLayout layout_;
  std::int64_t tp_rank_;
  StoreMemory memory_;
  WeightStore weights_;
  GradientStore gradients_;
  std::vector<UnitRun> held_;
  std::vector<UnitRun> runs_;     // what of it this rank updates
  std::vector<ShardRun> shards_;  // they, as callers see them
  bool measures_ = false;
  bool overflows_ = false;
  ExactSum leaves_;
};

}  // namespace nqd::engine
