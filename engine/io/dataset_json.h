// JSON of the data commands: the index beside the data files, and `nqd data … --json`.
#pragma once

#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/series_dataset.h"
#include "engine/data/stats.h"
#include "engine/data/verify.h"

namespace nqd::engine {

// dataset.json. Ends in a newline, as do the others.
std::string index_json(const DatasetIndex& index);

std::string prepare_json(const PrepareResult& result);
std::string stats_json(const std::vector<SplitStats>& splits);
std::string verify_json(const VerifiedDataset& dataset);

// Whether the folder's dataset.json describes time series. Throws Error NQD2001 when there is none.
bool holds_series(const std::filesystem::path& folder);

std::string series_index_json(const SeriesIndex& index);
std::string series_stats_json(const std::vector<SeriesStats>& splits);
std::string series_verify_json(const SeriesIndex& index);

}  // namespace nqd::engine
