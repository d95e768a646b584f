#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "planner/import/importers.h"

namespace nqd::planner {
namespace {

void import_batch(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  a.read("--micro-batch-size", "train.micro_batch_size");
  a.read("--global-batch-size", "train.global_batch_size");
  a.read("--train-iters", "train.steps");
  const auto batch = static_cast<double>(draft.integer("train.global_batch_size"));
  if (batch == 0 || draft.has("train.steps")) return;
  if (const std::optional<double> samples = a.number("--train-samples", {1, 1e15})) {
    a.derive("--train-samples", "train.steps",
             static_cast<std::int64_t>(std::ceil(*samples / batch)),
             "samples / --global-batch-size");
  }
}

void import_precision(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  const bool half = megatron_flag(a, "--fp16");
  const bool brain = megatron_flag(a, "--bf16");
  set_default(draft, "train.precision", std::string("float32"), "neither --fp16 nor --bf16");
  if (half) a.set("--fp16", "train.precision", std::string("float16"));
  if (brain) a.set("--bf16", "train.precision", std::string("bfloat16"));
  if (half && brain) {
    Diagnostic diagnostic = a.at("--bf16", "NQD2310", "--fp16 and --bf16 exclude each other");
    const Origin first = a.origin("--fp16");
    diagnostic.related.push_back(
        {{a.source().name(), first.place.line, first.place.column}, "--fp16 is here"});
    diagnostic.hint = "remove one of them";
    draft.report(std::move(diagnostic));
  }
  for (const std::string_view key : {"--fp8-format", "--fp8-hybrid", "--fp8-e4m3"}) {
    if (!a.has(key)) continue;
    if (!half && !brain) {
      draft.report(a.at(key, "NQD2310",
                        std::string(key) + " needs --bf16 or --fp16: all but the "
                                           "matrix products stays in 16 bits"));
    }
    a.set(key, "train.precision", std::string("fp8"));
  }
}

// Megatron-LM accumulates the gradients of bfloat16 weights in float32 unless told otherwise.
void import_gradients(ForeignTable& a) {
  constexpr std::string_view kPath = "train.gradient_precision";
  ImportDraft& draft = a.draft();
  const bool half = a.has("--fp16");
  const bool brain = a.has("--bf16");
  if (half && !brain) {
    set_default(draft, kPath, std::string("float16"), "no --accumulate-allreduce-grads-in-fp32");
  } else {
    set_default(draft, kPath, std::string("float32"),
                brain ? "Megatron-LM's default with --bf16" : "as the weights");
  }
  if (megatron_flag(a, "--accumulate-allreduce-grads-in-fp32")) {
    a.set("--accumulate-allreduce-grads-in-fp32", kPath, std::string("float32"));
  }
  if (megatron_flag(a, "--grad-reduce-in-bf16")) {
    a.set("--grad-reduce-in-bf16", kPath, std::string("bfloat16"));
  }
  if (a.is_text("--main-grads-dtype", "bf16")) {
    a.set("--main-grads-dtype", kPath, std::string("bfloat16"));
  } else if (a.is_text("--main-grads-dtype", "fp32")) {
    a.take("--main-grads-dtype");
  }
}

void import_full_recompute(ForeignTable& a) {
  constexpr std::string_view kMethod = "--recompute-method";
  constexpr std::string_view kCount = "--recompute-num-layers";
  ImportDraft& draft = a.draft();
  a.set("--recompute-granularity", "train.recompute", std::string("full"));
  const std::int64_t layers = a.integer(kCount, {1, 4096}).value_or(1);
  if (a.is_text(kMethod, "uniform")) {
    a.take(kMethod);
    if (a.has(kCount)) a.set(kCount, "train.recompute_every", layers);
    return;
  }
  // block: that many layers of each stage, each by itself; all of them is what nqd has.
  const std::int64_t stages = draft.integer("parallel.pp", 1) * draft.integer("parallel.vpp", 1);
  if (a.is_text(kMethod, "block") && layers * stages >= draft.integer("model.layers")) {
    a.take(kMethod);
    return;
  }
  a.drop(kMethod, "nqd recomputes all layers of a stage or none");
  a.drop(kCount, "nqd recomputes all layers of a stage or none");
}

void import_recompute(ForeignTable& a) {
  constexpr std::string_view kGranularity = "--recompute-granularity";
  constexpr std::string_view kShort = "--recompute-activations";
  ImportDraft& draft = a.draft();
  set_default(draft, "train.recompute", std::string("none"), "no --recompute-granularity");
  if (megatron_flag(a, kShort)) a.set(kShort, "train.recompute", std::string("selective"));
  if (a.is_text(kGranularity, "full")) {
    import_full_recompute(a);
  } else if (a.is_text(kGranularity, "selective")) {
    a.set(kGranularity, "train.recompute", std::string("selective"));
  }
  if (a.is_text("--recompute-modules", "core_attn")) a.take("--recompute-modules");
}

void import_attention_kernel(ForeignTable& a) {
  constexpr std::string_view kPath = "train.attention";
  ImportDraft& draft = a.draft();
  set_default(draft, kPath, std::string("flash"),
              "the default --transformer-impl has fused kernels");
  if (a.is_text("--transformer-impl", "local")) {
    a.derive("--transformer-impl", kPath, std::string("materialised"), "no --use-flash-attn");
  }
  a.take("--transformer-impl");
  if (megatron_flag(a, "--use-flash-attn")) a.set("--use-flash-attn", kPath, std::string("flash"));
  for (const std::string_view backend : {"flash", "fused", "auto"}) {
    if (a.is_text("--attention-backend", backend)) {
      a.set("--attention-backend", kPath, std::string("flash"));
    }
  }
  for (const std::string_view backend : {"unfused", "local"}) {
    if (a.is_text("--attention-backend", backend)) {
      a.set("--attention-backend", kPath, std::string("materialised"));
    }
  }
}

// Both are 0.1 unless given; their masks are kept whatever the share is.
void import_dropout(ForeignTable& a) {
  const std::optional<double> attention = a.number("--attention-dropout", {0, 1});
  const std::optional<double> hidden = a.number("--hidden-dropout", {0, 1});
  const bool dropout = attention.value_or(0.1) > 0 || hidden.value_or(0.1) > 0;
  const std::string_view decides =
      hidden && (*hidden > 0) == dropout ? "--hidden-dropout" : "--attention-dropout";
  if (a.has(decides)) {
    a.set(decides, "train.dropout", dropout);
  } else {
    set_default(a.draft(), "train.dropout", dropout,
                "the default of " + std::string(decides) + ": 0.1");
  }
}

void import_warmup(ForeignTable& a) {
  constexpr std::string_view kPath = "train.optimizer.warmup_steps";
  ImportDraft& draft = a.draft();
  const std::int64_t steps = draft.integer("train.steps");
  const auto batch = static_cast<double>(draft.integer("train.global_batch_size"));
  // Their length says nothing to a config that takes nqd's own number of steps.
  if (steps == 0) return;
  a.read("--lr-warmup-iters", kPath);
  const auto decay = static_cast<double>(a.integer("--lr-decay-iters", {1, 1e12}).value_or(steps));
  if (a.has("--lr-decay-iters") && decay != static_cast<double>(steps)) {
    a.drop("--lr-decay-iters", "nqd's learning rate reaches its minimum at the last step");
  }
  if (const std::optional<double> share = a.number("--lr-warmup-fraction", {0, 1})) {
    a.derive("--lr-warmup-fraction", kPath, static_cast<std::int64_t>(*share * decay),
             "of the steps of the decay");
  }
  const std::optional<double> samples =
      batch > 0 ? a.number("--lr-warmup-samples", {0, 1e15}) : std::nullopt;
  if (samples) {
    a.derive("--lr-warmup-samples", kPath, static_cast<std::int64_t>(*samples / batch),
             "samples / --global-batch-size");
  }
  if (!draft.has(kPath)) set_default(draft, kPath, std::int64_t{0}, "Megatron-LM's default");
}

// The last iterations of the style WSD (megatron/core/optimizer_param_scheduler.py).
void import_wsd_decay(ForeignTable& a) {
  constexpr std::string_view kShape = "train.optimizer.decay_shape";
  constexpr std::string_view kStyle = "--lr-wsd-decay-style";
  if (a.is_text(kStyle, "linear") || a.is_text(kStyle, "minus_sqrt")) {
    a.set(kStyle, kShape, std::string(a.is_text(kStyle, "linear") ? "linear" : "1-sqrt"));
  } else {
    a.drop(kStyle, "nqd's wsd goes down as 1 − x or 1 − √x");
  }
  a.read("--lr-wsd-decay-iters", "train.optimizer.decay_steps");
  const auto batch = static_cast<double>(a.draft().integer("train.global_batch_size"));
  const std::optional<double> samples =
      batch > 0 ? a.number("--lr-wsd-decay-samples", {0, 1e15}) : std::nullopt;
  if (samples) {
    a.derive("--lr-wsd-decay-samples", "train.optimizer.decay_steps",
             static_cast<std::int64_t>(*samples / batch), "samples / --global-batch-size");
  }
}

// Behind import_warmup: a linear decay begins where the warm-up ends.
void import_decay_style(ForeignTable& a) {
  constexpr std::string_view kStyle = "--lr-decay-style";
  constexpr std::string_view kSchedule = "train.optimizer.schedule";
  ImportDraft& draft = a.draft();
  const std::int64_t steps = draft.integer("train.steps");
  if (a.is_text(kStyle, "constant") || a.is_text(kStyle, "cosine")) {
    a.set(kStyle, kSchedule, a.text(kStyle).value_or("cosine"));
  } else if (a.is_text(kStyle, "WSD")) {
    a.set(kStyle, kSchedule, std::string("wsd"));
    import_wsd_decay(a);
  } else if (a.is_text(kStyle, "linear") && steps > 0) {
    a.derive(kStyle, kSchedule, std::string("wsd"), "all of it behind the warm-up decays");
    a.derive(kStyle, "train.optimizer.decay_steps",
             steps - draft.integer("train.optimizer.warmup_steps"), "of the steps after warm-up");
  } else {
    a.drop(kStyle, "nqd's schedules are constant, cosine and wsd");
  }
}

void import_optimizer(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  const auto read = [&](std::string_view key, std::string_view leaf, double fallback) {
    const std::string path = "train.optimizer." + std::string(leaf);
    if (!a.read(key, path) && !a.has(key)) {
      set_default(draft, path, fallback, "the default of " + std::string(key));
    }
  };
  set_default(draft, "train.optimizer.kind", std::string("adamw"), "the default of --optimizer");
  double momentum = 0;
  if (a.is_text("--optimizer", "sgd")) {
    momentum = a.number("--sgd-momentum", {0, 1}).value_or(0.9);
    a.set("--optimizer", "train.optimizer.kind",
          std::string(momentum > 0 ? "sgd-momentum" : "sgd"));
  } else if (a.is_text("--optimizer", "adam")) {
    a.set("--optimizer", "train.optimizer.kind", std::string("adamw"));
  }
  const bool offload = megatron_flag(a, "--optimizer-cpu-offload");
  const double share = offload ? a.number("--optimizer-offload-fraction", {0, 1}).value_or(1) : 0;
  if (offload && share == 1) {
    a.set("--optimizer-cpu-offload", "train.optimizer.offload", true);
  } else if (offload) {
    a.drop("--optimizer-offload-fraction", "nqd offloads all of the optimizer or nothing");
  }
  // Without a rate there is nothing for a minimum to belong to.
  const bool rate = a.read("--lr", "train.optimizer.learning_rate");
  if (a.is_text("--lr-decay-style", "constant")) {
    a.drop("--min-lr", "a constant rate has no minimum");
  } else if (rate) {
    read("--min-lr", "min_learning_rate", 0);
  }
  read("--weight-decay", "weight_decay", 0.01);
  read("--adam-beta1", "beta1", 0.9);
  if (momentum > 0 && momentum < 1) {
    draft.set("train.optimizer.beta1", momentum, a.origin("--sgd-momentum"));
  }
  read("--adam-beta2", "beta2", 0.999);
  read("--adam-eps", "epsilon", 1e-8);
  read("--clip-grad", "grad_clip", 1.0);
  import_warmup(a);
  import_decay_style(a);
}

}  // namespace

void import_megatron_training(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  import_batch(a);
  import_precision(a);
  import_gradients(a);
  import_recompute(a);
  import_attention_kernel(a);
  import_dropout(a);
  import_optimizer(a);
  a.read("--seed", "train.seed");
  if (const std::optional<std::int64_t> elements = a.integer("--ddp-bucket-size", {1, 1e12})) {
    const bool wide = draft.is("train.gradient_precision", std::string("float32"));
    a.derive("--ddp-bucket-size", "train.bucket_bytes", *elements * (wide ? 4 : 2),
             "elements · bytes of a gradient");
  }
  a.read("--eval-interval", "train.eval_every");
}

}  // namespace nqd::planner
