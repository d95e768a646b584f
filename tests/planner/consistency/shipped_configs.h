// The configs that ship with nqd, loaded.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "planner/config/config.h"
#include "planner/spec.h"

namespace nqd::planner {

// By name, from configs/*.yaml.
inline std::vector<Config> shipped_configs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(NQD_SOURCE_DIR "/configs")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Config> configs;
  for (const auto& path : paths) {
    const LoadedConfig loaded = load_config(path.string());
    if (loaded.ok()) configs.push_back(loaded.config);
  }
  return configs;
}

}  // namespace nqd::planner
