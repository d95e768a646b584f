// Constants of the time model, in three kinds: of a device, of the software that drives it, and of
// the fabric between devices. Each is a physical quantity with a unit; presets in configs/presets/
// {gpus,stacks,clusters}/ give the fitted values and their sources, and a calibration overrides
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nqd::planner {

// Whose buffers, gradient types and overlap a plan counts.
enum class Runtime : std::uint8_t { kNqd, kMegatron, kDeepSpeed, kFsdp2 };
std::string_view name(Runtime runtime);  // "nqd", "megatron", "deepspeed", "fsdp2"

struct GpuConstants {};

struct FabricConstants {};

struct StackSpec {
  std::string preset;  // as asked, or empty
};

}  // namespace nqd::planner
