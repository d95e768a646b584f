// The shipped models and machines: configs/presets/*/*.yaml, embedded into the library by
// presets.cmake so that the binary needs no files.
#pragma once

#include <span>
#include <string_view>

namespace nqd::planner {

struct Preset {
  std::string_view name;  // the file's name without .yaml
  std::string_view text;  // YAML: the keys of the section
};

std::span<const Preset> model_presets();
std::span<const Preset> cluster_presets();
std::span<const Preset> gpu_presets();    // keys of section cluster: one device
std::span<const Preset> stack_presets();  // keys of section stack

}  // namespace nqd::planner
