// `nqd checkpoint reshard` and `import`: generations that no run writes.
#pragma once

#include <string>

#include "cli/command.h"
#include "engine/checkpoint/manifest.h"
#include "planner/config/config.h"

namespace nqd::cli {

// The config of the run that saved it, with `options`.
planner::LoadedConfig config_of(const engine::Manifest& manifest,
                                const planner::LoadOptions& options = {});

void add_checkpoint_offline(CLI::App& group, Context& context);

}  // namespace nqd::cli
