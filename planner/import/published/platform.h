// Which device, machine and software produced a row.
#pragma once

#include <string>
#include <string_view>

#include "planner/import/published/fields.h"
#include "planner/spec.h"

namespace nqd::planner::published {

// What a stack's runs have in common beside its time constants: what a row means by what it does
// not say.
struct StackTraits {
  std::string_view stack;  // preset
  Runtime runtime = Runtime::kMegatron;
  Attention attention = Attention::kFlash;
  Precision gradients = Precision::kFloat32;
  Engine engine = Engine::kDdp;  // when the row says nothing about sharding
  bool dropout = false;
  bool sequence_parallel = false;     // with tp > 1, when the row says nothing
  bool counts_recomputation = false;  // its TFLOP/s include recomputed work
  bool counts_causal = false;         // … half of the attention scores
  bool usually_fp8 = false;           // when the row says no precision
  bool fused_kernels = true;          // when the row does not speak of a compiler
};

struct Platform {
  std::string gpu;      // preset
  std::string cluster;  // preset, or empty
  std::string stack;    // preset
  const StackTraits* traits = nullptr;
  double network_bytes_per_s = 0;  // of one device as the row gives it; 0 = the preset's
  std::int64_t nics_per_node = 0;  // 0 = one a device
  std::string problem;             // not empty: no preset stands for it
};

// Chosen by what the row's `gpu`, `framework`, `container`, `source`, `section`, `model` and the
// file's description say; never by file name or row id.
Platform platform_of(const Fields& row, const std::string& description);

}  // namespace nqd::planner::published
