// Runs the schedule of one pipeline stage: forward and backward of every micro-batch through the
// chunks that the stage holds, in the planner's order. What goes to another stage is sent beside
// the computation; what comes from one is received when it is needed. A pipeline of one stage is a
// schedule of forward and backward in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/models/transformer/transformer_chunk.h"
#include "engine/numerics/exact_sum.h"
#include "engine/parallel/pipeline/links.h"
#include "engine/parallel/pipeline/phase_clock.h"
#include "engine/parallel/store/unit_store.h"
#include "planner/schedule/schedule.h"

namespace nqd::engine {

// A micro-batch as TransformerChunk takes it. `first_sequence` is its global place in the step.
struct Batch {
  std::span<const std::byte> inputs;
  std::span<const std::int32_t> targets;
  std::int64_t first_sequence = 0;
};

// What this rank saw of the loss: nothing unless it holds the end of the model. Equal on all ranks
// of a tp group.
struct LossSum {
  ExactSum loss;  // of the cross-entropies of unmasked targets
  std::int64_t targets = 0;
};

// Which training passes a device may repeat (Device::repeat).
enum class PassRepeats : std::uint8_t {
  kNone,
  kOwn,     // each that of its own micro-batch, as dropout needs
  kShared,  // micro-batches that ask for the same repeat what one of them has
};

class StageRunner {
 public:
  // Micro-batch i of this rank; valid until the next call.
  using Load = std::function<Batch(std::int64_t)>;

  // `chunks` are those that `stage` holds, ascending, and the store's units are theirs, one after
  // the other. `pp` is null for a pipeline of one stage. All must outlive the runner.
  StageRunner(const planner::ScheduleSpec& schedule, std::int64_t stage,
              std::vector<TransformerChunk> chunks, UnitStore& store,
              collectives::Communicator* pp);

  // Collective over the pipeline and what the chunks and the store reduce over. One optimizer step:
  // gradients are added to the store. On a device that is not the host it has been asked for when
  // this returns.
  void train(std::int64_t step, float loss_scale, const Load& load);
  // Of the last train(). Waits for the device.
  LossSum loss();
  // Collective likewise. Forward alone, of `micro_batches`. Waits for the device.
  LossSum evaluate(std::int64_t micro_batches, const Load& load);

  // A defect for tests: what a chunk receives from another stage it computes with one micro-batch
  // later.
  void delay_inputs_for_test() { delays_inputs_ = true; }
  // From now on, but in steps that watch their gradients. For a rank alone. What a pass asks for is
  // told by its micro-batch, its buffers and the scale of the loss; the step, which dropout depends
  // on, is then read on the device.
  void repeat_passes(PassRepeats repeats);
  // Steps all of whose passes were repeated from what the device had kept.
  std::int64_t repeated_steps() const { return repeated_steps_; }
  // Whose phases passes are, from now on; null: nobody's. Must outlive the runner.
  void measure(PhaseClock* clock) { clock_ = clock; }
  // Most micro-batches in flight at a time, so far, by chunk of this stage.
  std::int64_t peak_slots(std::size_t chunk) const { return places_[chunk].peak_slots; }
  collectives::TrafficCount traffic() const;

 private:
  // What the chunk of a stage has in hand.
  struct Place {
    std::int64_t chunk = 0;    // of the model
    int first_unit = 0;        // of the store
    std::vector<Pass> passes;  // by micro-batch in flight
    std::vector<bool> slot_taken;
    std::vector<bool> stash_taken;
    std::vector<collectives::Work> sends;           // of outputs, by slot
    std::vector<collectives::Work> gradient_sends;  // by gradient buffer
    std::int64_t next_gradient = 0;
    std::int64_t peak_slots = 0;
    std::vector<std::byte> late;  // of a mutant: the input of the micro-batch before
  };

  void forward(std::size_t at, std::int64_t micro_batch, const Load& load);
  Batch load_measured(std::int64_t micro_batch, const Load& load);
  void backward(std::size_t at, std::int64_t micro_batch, planner::ActionKind kind);
  void receive_input(std::size_t at, std::int64_t micro_batch, const Pass& pass);
  void swap_for_test(std::span<std::byte> input, std::vector<std::byte>& late) const;
  void receive_gradient(std::size_t at, std::int64_t micro_batch, const Pass& pass);
  void send_output(std::size_t at, const Pass& pass);
  void send_gradient(std::size_t at, const Pass& pass);
  // Runs the units of a pass, or has the device repeat them.
  void run_units(std::size_t at, std::int64_t micro_batch, planner::ActionKind kind,
                 const std::function<void()>& units);
  void forward_units(std::size_t at, const Pass& pass);
  void backward_units(std::size_t at, const Pass& pass, bool with_weights);
  void weight_gradients(std::size_t at, const Pass& pass);
  void recompute_units(std::size_t at, int unit, const Pass& pass);
  void weight_gradient(std::size_t at, int unit, const Pass& pass);
  UnitWeights acquire(std::size_t at, int unit);
  void release(std::size_t at, int unit);
  void finish(std::size_t at, std::int64_t micro_batch);
  void finish_sends();

  bool is_first(const Place& place) const { return place.chunk == 0; }
  bool is_last(const Place& place) const;
  std::int32_t stage_of(std::int64_t chunk) const;
  std::size_t index_of(std::int64_t chunk) const;  // of a chunk of this stage

  planner::ScheduleSpec spec_;
  std::int64_t stage_;
  std::vector<planner::Action> actions_;
  std::vector<TransformerChunk> chunks_;
  UnitStore& store_;
  std::unique_ptr<PipelineLinks> links_;
  std::vector<Place> places_;
  Pass context_;  // what all passes of a step share
  LossSum sum_;
  std::unique_ptr<DeviceMemory> step_;  // the low half of the step, while passes are repeated
  PassRepeats repeats_ = PassRepeats::kNone;
  bool repeats_now_ = false;   // in this step
  bool all_repeated_ = false;  // of it, so far
  std::int64_t repeated_steps_ = 0;
  bool delays_inputs_ = false;
  PhaseClock* clock_ = nullptr;
  int table_ = -1;  // the token table's place in the store, −1 on a stage without it
};

}  // namespace nqd::engine
