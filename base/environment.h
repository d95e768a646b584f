// The environment variables that change what is measured; never the whole environment, which holds
// secrets.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nqd {

// Name and value, sorted by name.
using Variables = std::vector<std::pair<std::string, std::string>>;

// The allow-listed variables of `environment` ("NAME=value" strings). Kept: NCCL_*, UCX_*, FI_*,
// CUDA_*, OMP_*, OPENBLAS_*, NQD_*, Open MPI's parameters of transports, collectives, placement and
// binding, and a short list of launcher and allocator settings. A name that looks like a secret
// (TOKEN, SECRET, PASSWORD, KEY) is dropped whatever its prefix.
Variables allowed_environment(const std::vector<std::string>& environment);

// The same of this process.
Variables own_environment();

// The value of `name`, or "".
std::string value_of(const Variables& variables, const std::string& name);

}  // namespace nqd
