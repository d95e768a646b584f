// Which launcher started this process, from its environment.
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/world.h"

namespace nqd::collectives {
namespace {

// The variables of one launcher family. A family is present when rank and size are whole numbers
// and `required`, where it is not empty, is set.
struct Family {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* hosts;
  const char* required;
};

// Innermost first: mpirun may run inside a Slurm step, torchrun inside either.
constexpr std::array kFamilies = {
    Family{"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
           "OMPI_COMM_WORLD_LOCAL_SIZE", "", ""},
    Family{"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", ""},
    Family{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "",
           "TORCHELASTIC_RUN_ID"},
    // A batch script has SLURM_PROCID too, but no step of its own.
    Family{"slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "",
           "SLURM_STEP_NUM_NODES", "SLURM_STEP_ID"},
};

// What a script sets.
constexpr Family kVariablesAlone{"env", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                 "",    ""};

std::optional<int> read_number(const char* variable) {
  const char* text = *variable == '\0' ? nullptr : std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size()) return std::nullopt;
  return value;
}

std::optional<LaunchIdentity> read_family(const Family& family) {
  const auto rank = read_number(family.rank);
  const auto size = read_number(family.size);
  if (!rank || !size || *rank < 0 || *rank >= *size) return std::nullopt;
  if (*family.required != '\0' && std::getenv(family.required) == nullptr) return std::nullopt;
  LaunchIdentity identity;
  identity.launcher = family.launcher;
  identity.rank = *rank;
  identity.world_size = *size;
  identity.local_rank = read_number(family.local_rank).value_or(0);
  identity.several_hosts = read_number(family.local_size).value_or(*size) < *size ||
                           read_number(family.hosts).value_or(1) > 1;
  identity.rank_source = family.rank;
  return identity;
}

std::string describe(const LaunchIdentity& identity) {
  return identity.launcher + " says rank " + std::to_string(identity.rank) + " of " +
         std::to_string(identity.world_size) + " (" + identity.rank_source + ")";
}

}  // namespace

LaunchIdentity read_launch_identity(bool rendezvous) {
  std::optional<LaunchIdentity> innermost;
  for (const Family& family : kFamilies) {
    const auto found = read_family(family);
    if (!found) continue;
    if (!innermost) {
      innermost = found;
      continue;
    }
    // A Slurm step is the usual outer shell of the others, with numbers of its own.
    if (found->launcher == "slurm") continue;
    if (found->rank == innermost->rank && found->world_size == innermost->world_size) continue;
    throw Error(
        ExitCode::kEnvironment, "NQD3004",
        "two launchers disagree: " + describe(*innermost) + ", " + describe(*found),
        "start nqd with one launcher, or unset the variables that an outer one left behind");
  }
  // `srun --pty` of a shell is a step of one task, in which a script may start ranks of its own.
  const bool shell = innermost && innermost->launcher == "slurm" && innermost->world_size == 1;
  if (rendezvous && (!innermost || shell)) {
    if (const auto said = read_family(kVariablesAlone)) innermost = said;
  }
  return innermost.value_or(LaunchIdentity{});
}

}  // namespace nqd::collectives
