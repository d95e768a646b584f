// Whether a run may go on from a generation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/manifest.h"

namespace nqd::engine {

// The values of a run that its checkpoints are compared by: every resolved config value by dotted
// key, and "data.digest".
using RunValues = std::map<std::string, std::string>;

// Throws Error (kUsage, NQD2084) when one of `allowed` (below) names no compared key of `keys`:
// misspelt, it would let nothing through, and nobody would know why.
void check_allowed_changes(const RunValues& keys, const std::vector<std::string>& allowed);

// Throws Error (kUsage, NQD2084) when a value that the loss curve depends on is another one than
// when the generation was written: the model, numerics, precision, the optimizer, seed, batch,
// data. How the run is spread (mesh, engine, threads, recomputation, micro-batches) and how it is
// watched may change. `allowed`: keys, or prefixes that end in ".", whose changes are meant; one
// that names none of the compared keys is refused likewise.
void check_resumable(const Manifest& manifest, const RunValues& values,
                     const std::vector<std::string>& allowed);

}  // namespace nqd::engine
