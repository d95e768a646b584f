#include <array>
#include <vector>

#include "planner/config/field_parts.h"

namespace nqd::planner {
namespace {

constexpr std::array kSections = {
    Section{"model", "What is trained: a preset, a shape, or (family state) a parameter count."},
    Section{"model.moe", "Experts in place of the MLP."},
    Section{"model.mla", "Multi-head latent attention; kv_lora_rank 0 = ordinary attention."},
    Section{"model.rope_scaling",
            "Rotary frequencies stretched to longer sequences, as in Llama 3.1."},
    Section{"model.image", "Pictures in: vit, edsr, unet."},
    Section{"cluster", "What it runs on. Omitted: one node with as many devices as the mesh asks."},
    Section{"cluster.intra_node", "One device's link to the others of its node, one direction."},
    Section{"cluster.inter_node",
            "One device's share of the network between nodes, one direction."},
    Section{"cluster.device",
            "What one device reaches of its data sheet: the time model's constants."},
    Section{"cluster.fabric", "What communication between devices reaches."},
    Section{"parallel", "The mesh and the engine."},
    Section{"train", "The training job."},
    Section{"train.optimizer",
            "AdamW or SGD with decoupled weight decay; the learning rate's schedule."},
    Section{"stack", "The software that drives the devices: constants of the time model."},
    Section{"data", "Where the tokens come from."},
    Section{"numerics",
            "What nqd's own engine promises about bits; `numerics: fast` is short for its mode.",
            "mode"},
    Section{"checkpoint", "What nqd's own engine saves of a run."},
    Section{"guard", "What nqd's own engine does about a run that goes wrong without dying."},
};

constexpr std::array kData = {
    Field{.path = "data.path",
          .kind = Kind::kText,
          .slot = [](Draft& d) -> Slot { return &d.config.data.path; },
          .doc = "Folder written by `nqd data prepare`; empty for planning only."},
};

constexpr std::array<std::string_view, 2> kNumerics = {"canonical", "fast"};

constexpr std::array kNumericsFields = {
    Field{.path = "numerics.mode",
          .kind = Kind::kChoice,
          .slot = [](Draft& d) -> Slot { return &d.config.numerics.mode; },
          .choices = kNumerics,
          .doc = "canonical: the same bits on any mesh and engine; fast: library products, any "
                 "order of sums.",
          .also = "deterministic reproducible"},
    Field{.path = "numerics.tp_slices",
          .slot = [](Draft& d) -> Slot { return &d.config.numerics.tp_slices; },
          .range = whole(1, 64),
          .doc = "Canonical: slices of every sum that tp divides; tp must divide it."},
};

constexpr std::array kCheckpoint = {
    Field{.path = "checkpoint.path",
          .kind = Kind::kText,
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.path; },
          .doc = "Folder of the generations; empty: `checkpoints` in the run's output folder.",
          .also = "save_dir save checkpoint_dir"},
    Field{.path = "checkpoint.every",
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.every; },
          .range = whole(0, 1e12),
          .unit = "steps",
          .doc = "A generation every so many steps and at the end; 0 = only when the run is asked "
                 "to stop.",
          .also = "save_interval save_steps save_every"},
    Field{.path = "checkpoint.every_s",
          .kind = Kind::kSeconds,
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.every_s; },
          .range = kAtLeastZero,
          .doc = "And a generation when so long has passed since the last one; 0 = never."},
    Field{.path = "checkpoint.keep_last",
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.keep_last; },
          .range = whole(1, 1e6),
          .doc = "Newest generations that are kept.",
          .also = "save_total_limit"},
    Field{.path = "checkpoint.keep_every",
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.keep_every; },
          .range = whole(0, 1e12),
          .unit = "steps",
          .doc = "Generations of these steps are kept for good; 0 = none."},
    Field{.path = "checkpoint.keep_interval_s",
          .kind = Kind::kSeconds,
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.keep_interval_s; },
          .range = kAtLeastZero,
          .doc = "Of every so many seconds the first generation is kept for good; 0 = none."},
    Field{.path = "checkpoint.durable_path",
          .kind = Kind::kText,
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.durable_path; },
          .doc =
              "A folder on storage that outlives the node: complete generations are copied there "
              "in the background; empty = nowhere."},
    Field{.path = "checkpoint.async",
          .kind = Kind::kBoolean,
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.async; },
          .doc =
              "Training goes on while a copy of the state is written; false: it waits, and needs "
              "no memory for the copy.",
          .also = "async_save"},
    Field{.path = "checkpoint.bytes_per_s",
          .kind = Kind::kBytesPerSecond,
          .slot = [](Draft& d) -> Slot { return &d.config.checkpoint.bytes_per_s; },
          .range = kAtLeastZero,
          .doc = "What one rank writes at most; 0 = as fast as it goes."},
};

constexpr std::array kGuard = {
    Field{.path = "guard.max_skips",
          .slot = [](Draft& d) -> Slot { return &d.config.guard.max_skips; },
          .range = whole(1, 1e6),
          .unit = "steps",
          .doc = "Steps in a row that may be skipped because their loss or gradients are not "
                 "finite.",
          .also = "check_for_nan_in_loss_and_grad rerun_mode"},
    Field{.path = "guard.roll_back",
          .kind = Kind::kBoolean,
          .slot = [](Draft& d) -> Slot { return &d.config.guard.roll_back; },
          .doc = "After max_skips go back to the last generation and on without the batches since; "
                 "false: the run ends."},
    Field{.path = "guard.spike_score",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.guard.spike_score; },
          .range = kAtLeastZero,
          .doc = "A loss so many robust standard deviations above the median of the window counts "
                 "as not finite; 0 = none does."},
    Field{.path = "guard.max_roll_backs",
          .slot = [](Draft& d) -> Slot { return &d.config.guard.max_roll_backs; },
          .range = whole(1, 1e6),
          .doc = "Of a run; the next one ends it."},
    Field{.path = "guard.window",
          .slot = [](Draft& d) -> Slot { return &d.config.guard.window; },
          .range = whole(4, 1e6),
          .unit = "steps",
          .doc = "Over which medians and spreads of losses and of ranks' times are taken."},
    Field{.path = "guard.straggler_score",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.guard.straggler_score; },
          .range = kAtLeastZero,
          .doc = "A rank so many robust standard deviations slower than the others in a phase of "
                 "the step is named; 0 = ranks are not compared."},
    Field{.path = "guard.straggler_stop",
          .kind = Kind::kBoolean,
          .slot = [](Draft& d) -> Slot { return &d.config.guard.straggler_stop; },
          .doc = "A rank that is named ends the run behind a save, with exit code 75; false: a "
                 "warning."},
};

std::vector<Field> all_fields() {
  std::vector<Field> all;
  for (const std::span<const Field> part :
       {model_fields(), cluster_fields(), device_fields(), parallel_fields(), train_fields(),
        stack_fields(), std::span<const Field>(kData), std::span<const Field>(kNumericsFields),
        std::span<const Field>(kCheckpoint), std::span<const Field>(kGuard)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

std::span<const Field> fields() {
  static const std::vector<Field> all = all_fields();
  return all;
}
std::span<const Section> sections() { return kSections; }

}  // namespace nqd::planner
