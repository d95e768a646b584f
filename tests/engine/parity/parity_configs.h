// The configs of configs/parity/, as the tests read them.
#pragma once

#include <string>

#include "planner/config/config.h"

inline nqd::planner::Config parity_config(const std::string& name) {
  return nqd::planner::load_config(std::string(NQD_SOURCE_DIR) + "/configs/parity/" + name +
                                   ".yaml")
      .config;
}
inline nqd::planner::Config gpt_tied() { return parity_config("gpt-tied"); }
