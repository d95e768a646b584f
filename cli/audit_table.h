// The closing table of a training run: predicted beside measured.
#pragma once

#include <string>

#include "engine/records.h"

namespace nqd::cli {

// One line a row, with the verdict of each; ends in a newline.
std::string audit_table(const engine::TrainResult& result);

}  // namespace nqd::cli
