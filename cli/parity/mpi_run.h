// A cell of a parity matrix as processes of their own: `mpirun -n N nqd train …`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/parity/compare.h"
#include "engine/parity/matrix.h"

namespace nqd::cli {

// Runs this program's `train` on the cell, with `config` as its file, changed by `overrides`
// (--set), and reads the evidence that it leaves in `folder`, a new one. What the processes said is
// part of the error of a run that failed.
engine::ParityRun run_under_mpi(const engine::ParityCell& cell, const std::string& config,
                                const std::vector<std::string>& overrides,
                                const std::filesystem::path& folder);

}  // namespace nqd::cli
