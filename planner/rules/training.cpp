// Batch arithmetic, number types, recomputation, the learning rate and guards of the run.
#include <algorithm>
#include <array>

#include "planner/config/field.h"
#include "planner/rules/legality.h"
#include "planner/rules/rule.h"

namespace nqd::planner::rules {
namespace {

// The divisor of `value` next below or at `at`.
std::int64_t divisor_near(std::int64_t value, std::int64_t at) {
  while (!divides(at, value)) --at;
  return at;
}

// What may change beside the batch, which a run that goes on from a checkpoint has to keep.
std::string other_split(const TrainSpec& t, std::int64_t dp) {
  const std::int64_t batch = t.global_batch_size;
  const std::int64_t ranks = divisor_near(batch, std::min(dp, batch));
  const std::int64_t own = batch / ranks;
  const std::int64_t micro = divisor_near(own, std::min(t.micro_batch_size, own));
  return "to keep the batch, set " +
         (ranks == dp ? ""
                      : "parallel.dp to " + text(ranks) + " (on as many ranks as then fit) and ") +
         "train.micro_batch_size to " + text(micro);
}

void check_batch(const Config& c, Diagnostics& out) {
  const TrainSpec& t = c.train;
  const std::int64_t dp = c.parallel.dp;
  if (batch_divides(t.global_batch_size, t.micro_batch_size, dp)) return;
  const std::int64_t step = t.micro_batch_size * dp;
  out.push_back(violation(
      "NQD1209", "train.global_batch_size",
      "global_batch_size % (micro_batch_size·dp) = " + text(t.global_batch_size) + " % (" +
          text(t.micro_batch_size) + "·" + text(dp) + ") = " + text(t.global_batch_size % step),
      "the nearest legal global_batch_size is " + nearest_multiples(t.global_batch_size, step) +
          "; " + other_split(t, dp),
      {value_of("train.micro_batch_size", t.micro_batch_size), value_of("parallel.dp", dp)}));
}

void check_sequence_parallel(const Config& c, Diagnostics& out) {
  if (sequence_parallel_used(c.parallel.sequence_parallel, c.parallel.tp)) return;
  out.push_back(violation("NQD1212", "parallel.sequence_parallel",
                          "sequence_parallel needs tp > 1, but tp = 1",
                          "set parallel.sequence_parallel to false, or raise parallel.tp",
                          {value_of("parallel.tp", c.parallel.tp)}));
}

// The 16-bit type that weights have.
Precision weight_type(Precision precision) {
  return precision == Precision::kFp8 ? Precision::kBFloat16 : precision;
}

void check_gradient_type(const Config& c, Diagnostics& out) {
  const Precision weights = weight_type(c.train.precision);
  const Precision gradients = c.train.gradient_precision;
  const bool mixed = (weights == Precision::kFloat16 && gradients == Precision::kBFloat16) ||
                     (weights == Precision::kBFloat16 && gradients == Precision::kFloat16);
  if (!mixed) return;
  out.push_back(violation(
      "NQD1242", "train.gradient_precision",
      "weights are " + std::string(name(weights)) + ", but gradients are accumulated as " +
          std::string(name(gradients)) + ": neither type holds the other's values",
      "set train.gradient_precision to " + std::string(name(weights)) + " or float32",
      {value_of("train.precision", std::string(name(c.train.precision)))}));
}

void check_gradient_width(const Config& c, Diagnostics& out) {
  if (c.train.gradient_precision != Precision::kFp8) return;
  out.push_back(violation("NQD1243", "train.gradient_precision",
                          "sums of gradients do not fit into 8 bits: fp8 is for matrix products",
                          "set train.gradient_precision to bfloat16 or float32", {}));
}

void check_loss_scaling(const Config& c, Diagnostics& out) {
  if (c.train.precision != Precision::kFloat16) return;
  out.push_back(note(violation("NQD1241", "train.precision",
                               "in float16 gradients below 2^-24 = 6.0e-08 become 0: scale the "
                               "loss, dynamically",
                               "bfloat16 has float32's range and needs no scaling", {})));
}

void check_fp8_device(const Config& c, Diagnostics& out) {
  if (c.train.precision != Precision::kFp8 || c.cluster.device.fp8_speedup > 1) return;
  out.push_back(violation(
      "NQD1244", "train.precision", "the device multiplies no faster in fp8 than in 16 bits",
      "set train.precision to bfloat16, or plan for a device with 8-bit matrix "
      "units (Hopper, Ada, Blackwell, MI300)",
      {value_of("cluster.preset", c.cluster.preset), value_of("cluster.gpu", c.cluster.gpu)}));
}

void check_recompute_every(const Config& c, Diagnostics& out) {
  const TrainSpec& t = c.train;
  if (t.recompute_every == 1 || t.recompute == Recompute::kFull) return;
  out.push_back(violation(
      "NQD1245", "train.recompute_every",
      "recompute_every = " + text(t.recompute_every) +
          " groups layers of full recomputation, but recompute = " + std::string(name(t.recompute)),
      "set train.recompute to full, or train.recompute_every to 1",
      {value_of("train.recompute", std::string(name(t.recompute)))}));
}

void check_selective(const Config& c, Diagnostics& out) {
  const TrainSpec& t = c.train;
  if (t.recompute != Recompute::kSelective || t.attention != Attention::kFlash) return;
  out.push_back(note(violation("NQD1247", "train.recompute",
                               "selective recomputation drops the s·s scores, which flash "
                               "attention never writes: it gains next to nothing",
                               "set train.recompute to none, or to full where memory is short",
                               {value_of("train.attention", std::string(name(t.attention)))})));
}

void check_warmup(const Config& c, Diagnostics& out) {
  const std::int64_t warmup = c.train.optimizer.warmup_steps;
  if (warmup <= c.train.steps) return;
  out.push_back(violation("NQD1219", "train.optimizer.warmup_steps",
                          "warmup_steps = " + text(warmup) + " is more than steps = " +
                              text(c.train.steps) + ": the learning rate never reaches its peak",
                          "set train.optimizer.warmup_steps to at most " + text(c.train.steps),
                          {value_of("train.steps", c.train.steps)}));
}

void check_learning_rates(const Config& c, Diagnostics& out) {
  const OptimizerSpec& o = c.train.optimizer;
  if (o.schedule == RateSchedule::kConstant || o.min_learning_rate <= o.learning_rate) return;
  out.push_back(
      violation("NQD1220", "train.optimizer.min_learning_rate",
                "min_learning_rate is above learning_rate: the rate would grow",
                "set train.optimizer.min_learning_rate below learning_rate",
                {{{"train.optimizer.learning_rate", 0, 0}, "learning_rate is set here"}}));
}

void check_decay_fits(const Config& c, Diagnostics& out) {
  const OptimizerSpec& o = c.train.optimizer;
  const std::int64_t left = c.train.steps - o.warmup_steps;
  if (left < 0 || o.decay_steps <= left) return;
  out.push_back(violation("NQD1264", "train.optimizer.decay_steps",
                          "warmup_steps + decay_steps = " + text(o.warmup_steps) + " + " +
                              text(o.decay_steps) + " = " + text(o.warmup_steps + o.decay_steps) +
                              " is more than steps = " + text(c.train.steps),
                          "set train.optimizer.decay_steps to at most " + text(left),
                          {value_of("train.optimizer.warmup_steps", o.warmup_steps),
                           value_of("train.steps", c.train.steps)}));
}

// A key that the schedule does not read would be ignored.
void check_schedule_keys(const Config& c, Diagnostics& out) {
  const OptimizerSpec& o = c.train.optimizer;
  const std::string schedule(name(o.schedule));
  const auto unread = [&](const std::string& key, const std::string& value,
                          const std::string& whose, const std::string& hint) {
    out.push_back(
        violation("NQD1265", "train.optimizer." + key,
                  key + " = " + value + " is for " + whose + ", but schedule = " + schedule,
                  "remove train.optimizer." + key + ", or set train.optimizer.schedule to " + hint,
                  {value_of("train.optimizer.schedule", schedule)}));
  };
  if (o.schedule != RateSchedule::kWsd && o.decay_steps > 0) {
    unread("decay_steps", text(o.decay_steps), "wsd", "wsd");
  }
  if (o.schedule != RateSchedule::kWsd && o.decay_shape != DecayShape::kLinear) {
    unread("decay_shape", std::string(name(o.decay_shape)), "wsd", "wsd");
  }
  if (o.schedule == RateSchedule::kConstant && o.min_learning_rate != o.learning_rate) {
    unread("min_learning_rate", number_text(o.min_learning_rate), "a rate that goes down",
           "cosine or wsd");
  }
}

void check_roll_back(const Config& c, Diagnostics& out) {
  if (!c.guard.roll_back || c.checkpoint.every > 0 || c.checkpoint.every_s > 0) return;
  out.push_back(violation("NQD1268", "guard.roll_back",
                          "roll_back goes back to a generation, but the run saves none: "
                          "checkpoint.every = 0 and checkpoint.every_s = 0",
                          "set checkpoint.every, or guard.roll_back to false", {}));
}

constexpr std::array<Check, 13> kChecks = {
    check_batch,        check_sequence_parallel, check_gradient_type,   check_gradient_width,
    check_loss_scaling, check_fp8_device,        check_recompute_every, check_selective,
    check_warmup,       check_learning_rates,    check_decay_fits,      check_schedule_keys,
    check_roll_back,
};

}  // namespace

std::span<const Check> training_checks() { return kChecks; }

}  // namespace nqd::planner::rules
