// The constants that published step times determine, by name: "stacks.megatron-2022.host_layer_s".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

// One member of a preset's record.
struct ConstantField {
  std::string_view kind;  // "gpus", "stacks", "clusters": the folder of its presets
  std::string_view name;
  double low;   // physical bounds
  double high;  // ratios of 100 and more are searched on a logarithmic scale
  double& (*of)(Config& config);
};
std::span<const ConstantField> constant_fields();

// A field of one preset, or of several that share the value.
struct Constant {
  const ConstantField* field = nullptr;
  std::vector<std::string> presets;
  double value = 0;

  std::string name() const;  // "stacks.megatron-2021+megatron-2022.host_layer_s"
  bool applies_to(const Config& config) const;
  // Where the value lies between the bounds, as [0, 1], and back.
  double position() const;
  double value_at(double position) const;
};

// The constants that `pattern` names among the presets of `configs`, with their present values:
// KIND.PRESETS.FIELD, where PRESETS is a name, names joined by + (which share one value) or * (each
// its own), and FIELD a name or *. Throws Error (kUsage, NQD2062) when it names none, unless that
// is `optional`.
std::vector<Constant> find_constants(std::string_view pattern,
                                     std::span<const Config* const> configs, bool optional = false);
// What is fitted when nothing else is asked.
std::span<const std::string_view> fitted_constants();

// `config` with the values of all constants that apply to it.
void set_constants(std::span<const Constant> constants, Config& config);

}  // namespace nqd::planner
