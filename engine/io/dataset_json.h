// JSON of the data commands: the index beside the token files, and `nqd data … --json`.
#pragma once

#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/stats.h"
#include "engine/data/verify.h"

namespace nqd::engine {

// dataset.json. Ends in a newline, as do the others.
std::string index_json(const DatasetIndex& index);

std::string prepare_json(const PrepareResult& result);
std::string stats_json(const std::vector<SplitStats>& splits);
std::string verify_json(const VerifiedDataset& dataset);

}  // namespace nqd::engine
