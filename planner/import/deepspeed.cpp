// DeepSpeed's JSON; names and defaults are those of deepspeed/runtime/{config,zero/config}.py
// (github.com/deepspeedai/DeepSpeed).
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "planner/import/foreign_tree.h"
#include "planner/import/importers.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kAuto = "auto: the Hugging Face Trainer fills it in when it runs";
constexpr std::string_view kNoPlace = "nqd has no such setting";
constexpr std::string_view kLogging = "logging has no part in a plan";
constexpr std::string_view kOverlap = "buffers and overlap follow from train.runtime";

// "auto" is no value: listed, and true.
bool is_auto(ForeignTable& table, std::string_view key) {
  if (!table.is_text(key, "auto")) return false;
  table.drop(key, std::string(kAuto));
  return true;
}

// train_batch_size = train_micro_batch_size_per_gpu · gradient_accumulation_steps · dp.
void import_batch(ForeignTable& root, std::int64_t ranks) {
  constexpr std::string_view kBatch = "train_batch_size";
  constexpr std::string_view kMicro = "train_micro_batch_size_per_gpu";
  constexpr std::string_view kSteps = "gradient_accumulation_steps";
  ImportDraft& draft = root.draft();
  for (const std::string_view key : {kBatch, kMicro, kSteps}) is_auto(root, key);
  const auto read = [&](std::string_view key) {
    return root.is_text(key, "auto") ? std::nullopt : root.integer(key, {1, 1 << 30});
  };
  std::optional<std::int64_t> batch = read(kBatch);
  std::optional<std::int64_t> micro = read(kMicro);
  std::optional<std::int64_t> steps = read(kSteps);
  const std::int64_t replica = draft.integer("parallel.tp", 1) * draft.integer("parallel.pp", 1);
  std::int64_t dp = ranks / replica;
  if (dp == 0 && batch && micro && steps) {
    dp = *batch / (*micro * *steps);
    if (dp > 0) {
      root.derive(kBatch, "parallel.dp", dp, "over micro-batch size and accumulation steps");
    }
  }
  if (dp > 0 && batch && !micro && steps) micro = *batch / (dp * *steps);
  if (batch && micro && steps && *batch != *micro * *steps * std::max<std::int64_t>(dp, 1)) {
    Diagnostic diagnostic = root.at(kBatch, "NQD2312",
                                    "train_batch_size = " + std::to_string(*batch) +
                                        " is not micro-batch size · accumulation "
                                        "steps · ranks = " +
                                        std::to_string(*micro) + " · " + std::to_string(*steps) +
                                        " · " + std::to_string(std::max<std::int64_t>(dp, 1)));
    diagnostic.hint = "give two of the three: DeepSpeed derives the third";
    draft.report(std::move(diagnostic));
  }
  if (micro && *micro > 0)
    root.derive(root.has(kMicro) ? kMicro : kBatch, "train.micro_batch_size", *micro, "sequences");
  if (batch) {
    root.set(kBatch, "train.global_batch_size", *batch);
  } else if (micro) {
    root.derive(kMicro, "train.global_batch_size",
                *micro * steps.value_or(1) * std::max<std::int64_t>(dp, 1),
                "· accumulation steps · ranks");
  }
}

void import_offload(ForeignTable& zero) {
  if (zero.boolean("cpu_offload")) zero.set("cpu_offload", "train.optimizer.offload", true);
  if (std::optional<ForeignTable> offload = zero.section("offload_optimizer")) {
    if (offload->is_text("device", "cpu")) {
      offload->set("device", "train.optimizer.offload", true);
    } else if (offload->is_text("device", "nvme")) {
      offload->derive("device", "train.optimizer.offload", true, "counted as host memory");
    } else if (offload->is_text("device", "none")) {
      offload->take("device");
    }
    offload->drop_rest({}, "how the copies are made does not change what the plan counts");
  }
  if (std::optional<ForeignTable> offload = zero.section("offload_param")) {
    if (offload->is_text("device", "none")) offload->take("device");
    offload->drop_rest({}, "nqd does not offload weights");
  }
}

void import_zero(ForeignTable& root) {
  constexpr std::string_view kEngines[] = {"ddp", "zero1", "zero2", "zero3"};
  std::optional<ForeignTable> zero = root.section("zero_optimization");
  if (!zero) {
    set_default(root.draft(), "parallel.engine", std::string("ddp"), "no zero_optimization");
    return;
  }
  const std::int64_t stage = zero->integer("stage", {0, 3}).value_or(0);
  zero->set("stage", "parallel.engine", std::string(kEngines[stage]));
  const auto bucket = is_auto(*zero, "reduce_bucket_size")
                          ? std::nullopt
                          : zero->number("reduce_bucket_size", {1, 1e12});
  if (bucket && *bucket == std::floor(*bucket)) {
    const bool wide = root.draft().is("train.precision", std::string("float32"));
    zero->derive("reduce_bucket_size", "train.bucket_bytes",
                 static_cast<std::int64_t>(*bucket) * (wide ? 4 : 2),
                 "elements · bytes of a gradient");
  }
  // MiCS: state sharded inside groups and copied across them.
  const std::int64_t group = zero->integer("mics_shard_size", {-1, 1 << 20}).value_or(-1);
  if (group > 0) {
    zero->set("mics_shard_size", "parallel.engine", std::string("hsdp"));
    zero->set("mics_shard_size", "parallel.hsdp_shard", group);
  }
  import_offload(*zero);
  constexpr Reason kReasons[] = {{"zero_hpz_partition_size", "nqd gathers weights from all of dp"},
                                 {"zero_quantized*", "nqd does not compress what it sends"},
                                 {"*", kOverlap}};
  zero->drop_rest(kReasons, kOverlap);
}

// Nothing for "auto": the trainer that DeepSpeed runs under decides.
std::optional<bool> enabled(ForeignTable& root, std::string_view key) {
  std::optional<ForeignTable> section = root.section(key);
  if (!section) return false;
  std::optional<bool> on;
  if (!is_auto(*section, "enabled")) on = section->boolean("enabled");
  section->drop_rest({}, "loss scaling does not change what the plan counts");
  return on;
}

void import_precision(ForeignTable& root) {
  ImportDraft& draft = root.draft();
  const std::string_view key = root.has("bfloat16") ? "bfloat16" : "bf16";
  const std::optional<bool> fp16 = enabled(root, "fp16");
  const std::optional<bool> bf16 = enabled(root, key);
  const bool half = fp16.value_or(false);
  const bool brain = bf16.value_or(false);
  if (fp16 && bf16) {
    set_default(draft, "train.precision", std::string("float32"),
                "neither fp16 nor bf16 is enabled");
  }
  if (half) root.set("fp16", "train.precision", std::string("float16"));
  if (brain) root.set(key, "train.precision", std::string("bfloat16"));
  if (half && brain) {
    Diagnostic diagnostic = root.at(key, "NQD2310", "fp16 and bf16 exclude each other");
    diagnostic.hint = "enable one of them";
    draft.report(std::move(diagnostic));
  }
  constexpr std::string_view kPath = "train.gradient_precision";
  std::optional<ForeignTable> types = root.section("data_types");
  if (types) {
    for (const auto& [name, precision] :
         {std::pair<std::string_view, std::string_view>{"fp32", "float32"},
          {"bf16", "bfloat16"},
          {"fp16", "float16"}}) {
      if (types->is_text("grad_accum_dtype", name)) {
        types->set("grad_accum_dtype", kPath, std::string(precision));
      }
    }
    types->drop_rest({}, kNoPlace);
  }
  if (!draft.has(kPath) && brain && !root.has("zero_optimization")) {
    set_default(draft, kPath, std::string("float32"), "DeepSpeed's default for bf16 without ZeRO");
  }
}

void import_optimizer(ForeignTable& root) {
  constexpr std::string_view kKind = "train.optimizer.kind";
  std::optional<ForeignTable> optimizer = root.section("optimizer");
  if (!optimizer) return;
  std::optional<ForeignTable> params = optimizer->section("params");
  const bool momentum = params && !params->is_text("momentum", "auto") &&
                        params->number("momentum", {0, 1}).value_or(0) > 0;
  for (const std::string_view adam :
       {"Adam", "AdamW", "FusedAdam", "CPUAdam", "DeepSpeedCPUAdam"}) {
    if (optimizer->is_text("type", adam)) optimizer->set("type", kKind, std::string("adamw"));
  }
  if (optimizer->is_text("type", "SGD")) {
    optimizer->set("type", kKind, std::string(momentum ? "sgd-momentum" : "sgd"));
    if (momentum) params->read("momentum", "train.optimizer.beta1");
  }
  optimizer->drop_rest({}, "nqd has AdamW and SGD");
  if (!params) return;
  const auto read = [&](std::string_view key, std::string_view leaf) {
    if (!is_auto(*params, key)) params->read(key, "train.optimizer." + std::string(leaf));
  };
  read("lr", "learning_rate");
  read("eps", "epsilon");
  read("weight_decay", "weight_decay");
  const YamlEntry* betas = is_auto(*params, "betas") ? nullptr : params->take("betas");
  if (betas != nullptr && betas->value.items.size() == 2) {
    YamlNode pair{YamlNode::Kind::kMap, betas->value.place, {}, false, {}, {}};
    pair.entries.push_back({"0", betas->value.items[0].place, betas->value.items[0]});
    pair.entries.push_back({"1", betas->value.items[1].place, betas->value.items[1]});
    ForeignTable table(params->source(), pair, "optimizer.params.betas.", params->draft());
    table.read("0", "train.optimizer.beta1");
    table.read("1", "train.optimizer.beta2");
  }
  params->drop_rest({}, kNoPlace);
}

constexpr std::string_view kSchedules =
    "nqd warms up linearly, then the rate is constant or goes down by a cosine or as wsd";

// deepspeed/runtime/lr_schedules.py: WarmupLR stays, WarmupDecayLR goes down to 0 along a line.
void import_schedule_type(ForeignTable& scheduler, const std::string& type, bool total) {
  constexpr std::string_view kSchedule = "train.optimizer.schedule";
  ImportDraft& draft = scheduler.draft();
  if (type == "WarmupLR") {
    scheduler.set("type", kSchedule, std::string("constant"));
  } else if (type == "WarmupCosineLR") {
    scheduler.set("type", kSchedule, std::string("cosine"));
  } else if (type == "WarmupDecayLR" && total) {
    scheduler.derive("type", kSchedule, std::string("wsd"), "all of it behind the warm-up decays");
    scheduler.derive("type", "train.optimizer.decay_steps",
                     draft.integer("train.steps") - draft.integer("train.optimizer.warmup_steps"),
                     "of the steps after warm-up");
    scheduler.derive("type", "train.optimizer.min_learning_rate", 0.0, "WarmupDecayLR ends at 0");
  } else {
    scheduler.drop("type", std::string(kSchedules));
  }
}

void import_schedule(ForeignTable& root) {
  std::optional<ForeignTable> scheduler = root.section("scheduler");
  if (!scheduler) return;
  std::optional<ForeignTable> params = scheduler->section("params");
  const std::string type = scheduler->text("type").value_or("");
  if (!params) {
    import_schedule_type(*scheduler, type, false);
    return scheduler->drop_rest({}, kSchedules);
  }
  const bool total =
      !is_auto(*params, "total_num_steps") && params->read("total_num_steps", "train.steps");
  // A warm-up must end before the training does.
  if (total && !is_auto(*params, "warmup_num_steps")) {
    params->read("warmup_num_steps", "train.optimizer.warmup_steps");
  }
  if (!is_auto(*params, "warmup_max_lr")) {
    params->read("warmup_max_lr", "train.optimizer.learning_rate");
  }
  import_schedule_type(*scheduler, type, total);
  if (params->is_text("warmup_type", "linear")) params->take("warmup_type");
  params->drop_rest({}, kSchedules);
  scheduler->drop_rest({}, kSchedules);
}

void import_mesh(ForeignTable& root) {
  if (std::optional<ForeignTable> tensor = root.section("tensor_parallel")) {
    if (!is_auto(*tensor, "autotp_size")) tensor->read("autotp_size", "parallel.tp");
    if (!is_auto(*tensor, "tp_size")) tensor->read("tp_size", "parallel.tp");
    tensor->drop_rest({}, kNoPlace);
  }
  if (std::optional<ForeignTable> pipeline = root.section("pipeline")) {
    if (!is_auto(*pipeline, "stages")) pipeline->read("stages", "parallel.pp");
    pipeline->drop_rest({}, "stages are equal, or given by parallel.pipeline_split");
  }
}

}  // namespace

void import_deepspeed(const Source& config, std::int64_t ranks, ImportDraft& draft) {
  const std::optional<YamlNode> tree = parse_json(config, draft.diagnostics());
  if (!tree) return;
  ForeignTable root(config, *tree, "", draft);
  set_default(draft, "train.runtime", std::string("deepspeed"), "the file is DeepSpeed's");
  import_mesh(root);
  import_batch(root, ranks);
  import_precision(root);
  import_zero(root);
  import_optimizer(root);
  import_schedule(root);
  if (!is_auto(root, "gradient_clipping") &&
      !root.read("gradient_clipping", "train.optimizer.grad_clip") &&
      !root.has("gradient_clipping")) {
    set_default(draft, "train.optimizer.grad_clip", 0.0,
                "DeepSpeed's default: no gradient_clipping");
  }
  constexpr Reason kReasons[] = {
      {"activation_checkpointing",
       "it takes effect where the model's code calls it: set train.recompute"},
      {"sequence_parallel_size", "Ulysses is not nqd's context parallelism"},
      {"steps_per_print", kLogging},
      {"wall_clock_breakdown", kLogging},
      {"tensorboard", kLogging},
      {"wandb", kLogging},
      {"csv_monitor", kLogging},
      {"comet", kLogging},
      {"flops_profiler", kLogging},
      {"dump_state", kLogging},
      {"memory_breakdown", kLogging},
      {"comms_logger", kLogging},
      {"prescale_gradients", kOverlap},
      {"communication_data_type", kOverlap},
      {"sparse_gradients", kOverlap},
      {"gradient_predivide_factor", kOverlap},
      {"aio", "offload devices have no part in a plan"},
      {"checkpoint", "checkpoints have no part in a plan"},
      {"zero_allow_untested_optimizer", "it permits, and does not change, an optimizer"}};
  root.drop_rest(kReasons, kNoPlace);
}

}  // namespace nqd::planner
