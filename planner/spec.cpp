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
  }
  return "?";
}

std::string_view name(Recompute recompute) {
  return recompute == Recompute::kNone ? "none" : "full";
}

std::string_view name(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
      return "gpipe";
    case Schedule::k1F1B:
      return "1f1b";
    case Schedule::kInterleaved:
      return "interleaved";
  }
  return "?";
}

}  // namespace nqd::planner
