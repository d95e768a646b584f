#include "base/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace nqd {
namespace {

// mpirun exports dozens of OMPI_MCA_* of its own (addresses, keys): those that a user sets belong
// to a few frameworks.
constexpr std::array<std::string_view, 15> kPrefixes = {
    "CUDA_",          "FI_",           "NCCL_",
    "NQD_",           "OMPI_MCA_btl",  "OMPI_MCA_coll",
    "OMPI_MCA_hwloc", "OMPI_MCA_mpi_", "OMPI_MCA_mtl",
    "OMPI_MCA_osc",   "OMPI_MCA_pml",  "OMPI_MCA_rmaps",
    "OMP_",           "OPENBLAS_",     "UCX_"};
// Settings that move a measurement, and the launcher's word on the world's size.
constexpr std::array<std::string_view, 19> kNames = {"BLIS_NUM_THREADS",
                                                     "DNNL_MAX_CPU_ISA",
                                                     "GLIBC_TUNABLES",
                                                     "GOMP_CPU_AFFINITY",
                                                     "LD_PRELOAD",
                                                     "MALLOC_ARENA_MAX",
                                                     "MALLOC_MMAP_MAX_",
                                                     "MALLOC_MMAP_THRESHOLD_",
                                                     "MALLOC_TOP_PAD_",
                                                     "MALLOC_TRIM_THRESHOLD_",
                                                     "MKL_NUM_THREADS",
                                                     "MPIR_CVAR_NOLOCAL",
                                                     "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                     "OMPI_COMM_WORLD_SIZE",
                                                     "PMI_SIZE",
                                                     "SLURM_JOB_ID",
                                                     "SLURM_NNODES",
                                                     "SLURM_NTASKS",
                                                     "WORLD_SIZE"};
constexpr std::array<std::string_view, 4> kSecretWords = {"TOKEN", "SECRET", "PASSWORD", "KEY"};

bool is_allowed(std::string_view name) {
  const auto contains = [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  };
  if (std::any_of(kSecretWords.begin(), kSecretWords.end(), contains)) return false;
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

Variables allowed_environment(const std::vector<std::string>& environment) {
  Variables allowed;
  for (const std::string& entry : environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos) continue;
    if (is_allowed(std::string_view(entry).substr(0, equals))) {
      allowed.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  std::sort(allowed.begin(), allowed.end());
  return allowed;
}

Variables own_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return allowed_environment(variables);
}

std::string value_of(const Variables& variables, const std::string& name) {
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const auto& variable) { return variable.first == name; });
  return found == variables.end() ? std::string() : found->second;
}

}  // namespace nqd
