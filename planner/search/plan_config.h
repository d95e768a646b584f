// From a config file to what a search starts from, and back from a plan to a config file.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/config.h"
#include "planner/spec.h"

namespace nqd::planner::search {

// What stays wrong with a loaded config whatever its mesh, micro-batch and engine are: findings of
// the loader apart from the mesh rules, and the rules that the plainest mesh breaks too. Located in
// the file.
std::vector<Diagnostic> lasting_findings(const LoadedConfig& loaded);

// What a search starts from: without what the loader derived from the file's mesh.
Config start_of(const LoadedConfig& loaded);

// The keys that a plan (config_of) decides, as --set takes them.
std::vector<std::string> plan_overrides(const Config& planned);

// The canonical config file of a plan of `loaded` (config_of): every value, and the plan's in place
// of those of the file. `options` are those with which it was loaded. It loads without errors.
std::string plan_yaml(const LoadedConfig& loaded, const LoadOptions& options,
                      const Config& planned);

}  // namespace nqd::planner::search
