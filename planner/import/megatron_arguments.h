// The arguments of Megatron-LM and of its launcher in a script.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/source.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {

// Mappings from "--name" (dashes, never underscores) to the words behind it: nothing, a scalar or a
// list. Of an argument given twice the last counts, as in argparse (warned of: NQD2313).
struct MegatronArguments {
  YamlNode launcher;  // torchrun, srun, deepspeed, #SBATCH: what stands before the program
  YamlNode program;
};

// Those of the command that has most of Megatron-LM's arguments; a line that starts with `--`
// continues the one before. An error (NQD2301) when no command has any.
std::optional<MegatronArguments> megatron_arguments(const Source& source,
                                                    std::vector<Diagnostic>& diagnostics);

// Every argument that has a meaning for nqd.
std::span<const std::string_view> known_megatron_arguments();

}  // namespace nqd::planner
