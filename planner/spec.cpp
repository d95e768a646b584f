#include "planner/spec.h"

namespace nqd::planner {

std::string_view name(Engine engine) {
  switch (engine) {
    case Engine::kDdp:
      return "ddp";
    case Engine::kZero1:
      return "zero1";
    case Engine::kZero2:
      return "zero2";
    case Engine::kZero3:
      return "zero3";
    case Engine::kHsdp:
      return "hsdp";
  }
  return "?";
}

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "float32";
    case Precision::kBFloat16:
      return "bfloat16";
    case Precision::kFloat16:
      return "float16";
    case Precision::kFp8:
      return "fp8";
  }
  return "?";
}

std::optional<Precision> parse_precision(std::string_view text) {
  for (const Precision known :
       {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16, Precision::kFp8}) {
    if (name(known) == text) return known;
  }
  return std::nullopt;
}

std::string_view name(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "?";
}

std::string_view name(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
      return "gpipe";
    case Schedule::k1F1B:
      return "1f1b";
    case Schedule::kInterleaved:
      return "interleaved";
    case Schedule::kZbH1:
      return "zb-h1";
    case Schedule::kZbH2:
      return "zb-h2";
    case Schedule::kZbV:
      return "zb-v";
  }
  return "?";
}

std::string_view name(Attention attention) {
  return attention == Attention::kMaterialised ? "materialised" : "flash";
}

std::string_view name(Norm norm) { return norm == Norm::kLayerNorm ? "layernorm" : "rmsnorm"; }

std::string_view name(Positions positions) {
  switch (positions) {
    case Positions::kLearned:
      return "learned";
    case Positions::kRotary:
      return "rotary";
    case Positions::kNone:
      return "none";
  }
  return "?";
}

std::string_view name(RateSchedule schedule) {
  switch (schedule) {
    case RateSchedule::kConstant:
      return "constant";
    case RateSchedule::kCosine:
      return "cosine";
    case RateSchedule::kWsd:
      return "wsd";
  }
  return "?";
}

std::string_view name(DecayShape shape) {
  return shape == DecayShape::kLinear ? "linear" : "1-sqrt";
}

std::string_view name(MeshOrder order) {
  return order == MeshOrder::kPpThenDp ? "tp-cp-pp-dp" : "tp-cp-dp-pp";
}

std::string_view name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdamW:
      return "adamw";
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kSgdMomentum:
      return "sgd-momentum";
  }
  return "?";
}

std::string_view name(Runtime runtime) {
  switch (runtime) {
    case Runtime::kNqd:
      return "nqd";
    case Runtime::kMegatron:
      return "megatron";
    case Runtime::kDeepSpeed:
      return "deepspeed";
    case Runtime::kFsdp2:
      return "fsdp2";
  }
  return "?";
}

bool is_transformer(const ModelSpec& model) {
  return model.family == "gpt" || model.family == "llama" || model.family == "moe" ||
         model.family == "vit" || model.family == "timeseries";
}

}  // namespace nqd::planner
