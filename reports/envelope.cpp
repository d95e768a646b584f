#include "reports/envelope.h"

#include <gnu/libc-version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include "collectives/world.h"
#include "engine/gemm/gemm.h"

namespace nqd::reports {
namespace {

constexpr std::array<std::string_view, 5> kPrefixes = {"NCCL_", "CUDA_", "OMP_", "OPENBLAS_",
                                                       "NQD_"};
// Settings that move a measurement, and the launcher's word on the world's size. mpirun exports
// dozens of OMPI_MCA_* of its own (addresses, keys), so these are listed one by one.
constexpr std::array<std::string_view, 21> kNames = {"BLIS_NUM_THREADS",
                                                     "DNNL_MAX_CPU_ISA",
                                                     "GLIBC_TUNABLES",
                                                     "GOMP_CPU_AFFINITY",
                                                     "LD_PRELOAD",
                                                     "MALLOC_ARENA_MAX",
                                                     "MALLOC_MMAP_THRESHOLD_",
                                                     "MALLOC_TRIM_THRESHOLD_",
                                                     "MKL_NUM_THREADS",
                                                     "MPIR_CVAR_NOLOCAL",
                                                     "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                     "OMPI_COMM_WORLD_SIZE",
                                                     "OMPI_MCA_btl",
                                                     "OMPI_MCA_btl_vader_single_copy_mechanism",
                                                     "OMPI_MCA_coll",
                                                     "OMPI_MCA_pml",
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

std::vector<std::string> process_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::vector<std::pair<std::string, std::string>> build_libraries() {
  std::vector<std::pair<std::string, std::string>> libraries;
  libraries.emplace_back("libc", std::string("glibc ") + gnu_get_libc_version());
  const engine::GemmLibrary gemm = engine::gemm_library();
  libraries.emplace_back("gemm", gemm.name + " " + gemm.version + " (" + gemm.core + ")");
  for (const collectives::BackendStatus& backend : collectives::backend_status()) {
    if (backend.available && !backend.detail.empty()) {
      libraries.emplace_back(backend.name, backend.detail);
    }
  }
  return libraries;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> allowed_environment(
    const std::vector<std::string>& environment) {
  std::vector<std::pair<std::string, std::string>> allowed;
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

Envelope begin_envelope(std::string kind, std::vector<std::string> argv) {
  Envelope envelope;
  envelope.kind = std::move(kind);
  envelope.tool = build_info();
  envelope.argv = std::move(argv);
  envelope.libraries = build_libraries();
  envelope.environment = allowed_environment(process_environment());
  envelope.host = read_host_info();
  envelope.started_at = now_utc();
  return envelope;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&now, &fields);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  return {text.data(), length};
}

}  // namespace nqd::reports
