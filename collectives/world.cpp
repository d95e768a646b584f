#include "collectives/world.h"

#include <cstdlib>
#include <string>

#include "collectives/local/local.h"
#include "collectives/mpi/mpi.h"
#include "collectives/shared/cross_memory.h"
#include "collectives/shm/rendezvous.h"

namespace nqd::collectives {
namespace {

// mpirun -n 1 counts too: the user chose MPI. A Slurm step or torchrun of one is a plain process.
bool is_multi_process(const LaunchIdentity& identity) {
  return identity.launcher == "openmpi" || identity.launcher == "mpich" || identity.world_size > 1;
}

void check_transport(const LaunchIdentity& identity) {
  const bool can_use_mpi = identity.launcher != "torchrun";
  if (mpi::is_available() && can_use_mpi) return;
  throw Error(
      ExitCode::kEnvironment, "NQD3003",
      "launched by " + identity.launcher + " as rank " + std::to_string(identity.rank) + " of " +
          std::to_string(identity.world_size) + ", but " +
          (can_use_mpi ? "this build has no MPI" : "ranks in several processes talk through MPI"),
      can_use_mpi ? "pass --rendezvous file:PATH to processes of one host, build with "
                    "-DNQD_WITH_MPI=ON, or run one process with --ranks N"
                  : "pass --rendezvous file:PATH to processes of one host, start the job with "
                    "mpirun, or run one process with --ranks N");
}

[[noreturn]] void throw_backend(const LaunchIdentity& identity, ExitCode code,
                                const std::string& message, const std::string& hint) {
  Error error(code, "NQD3007", message, hint);
  error.set_quiet(identity.rank != 0);
  throw error;
}

void check_backend(const std::string& backend, const LaunchIdentity& identity) {
  if (backend == "auto") return;
  if (backend == "local") {
    if (!is_multi_process(identity)) return;
    throw_backend(
        identity, ExitCode::kEnvironment,
        "the local backend runs ranks as threads of one process, but " + identity.launcher +
            " started rank " + std::to_string(identity.rank) + " of " +
            std::to_string(identity.world_size) + " (" + identity.rank_source + ")",
        "start one process without the launcher (--ranks N), or use --backend mpi or shm");
  }
  if (backend == "mpi" || backend == "shm") {
    if (is_multi_process(identity)) return;
    throw_backend(
        identity, ExitCode::kEnvironment,
        "the " + backend + " backend runs ranks as processes of a launcher, and there is none",
        "start it with `mpirun -n N nqd ...`, or use --backend local");
  }
  throw_backend(identity, ExitCode::kUsage, "there is no backend `" + backend + "`",
                "use auto, local, mpi or shm");
}

std::string describe(const char* variable) {
  const char* value = std::getenv(variable);
  return std::string(variable) + (value == nullptr ? " is not set" : std::string("=") + value);
}

void check_rendezvous(const std::string& backend, const LaunchIdentity& identity) {
  if (identity.launcher == "none") {
    throw_backend(identity, ExitCode::kEnvironment,
                  "nothing says which rank of a rendezvous this process is: " + describe("RANK") +
                      ", " + describe("WORLD_SIZE"),
                  "set RANK from 0 to WORLD_SIZE - 1, start it with `torchrun --no-python nqd ...` "
                  "or another launcher, or run one process with --ranks N");
  }
  if (backend == "auto" || backend == "shm") return;
  throw_backend(
      identity, ExitCode::kEnvironment,
      "ranks that meet by a file talk through shared memory, not over the " + backend + " backend",
      "leave --backend out, or use --backend shm");
}

void check_asked(const WorldOptions& options, const LaunchIdentity& identity) {
  if (!options.ranks || *options.ranks == identity.world_size) return;
  throw Error(ExitCode::kEnvironment, "NQD3001",
              "asked for " + std::to_string(*options.ranks) + " ranks, but " + identity.launcher +
                  " started " + std::to_string(identity.world_size) + " (" + identity.rank_source +
                  ")",
              "start it with -n " + std::to_string(*options.ranks) + ", or ask for " +
                  std::to_string(identity.world_size));
}

}  // namespace

std::vector<BackendStatus> backend_status() {
  const std::string obstacle = cross_memory_obstacle();
  const std::string long_messages =
      obstacle.empty() ? "long messages are read in place (process_vm_readv works)"
                       : "long messages from private memory pass through copies (" + obstacle + ")";
  return {{"local", true, "ranks are threads of one process"},
          {"mpi", mpi::is_available(), mpi::detail()},
          {"shm", true,
           "ranks are processes of one host, started by " +
               std::string(mpi::is_available() ? "mpirun or " : "") +
               "any launcher with --rendezvous file:PATH; " + long_messages}};
}

void run_threads(int ranks, const WorldOptions& options,
                 const std::function<void(Communicator&)>& body) {
  if (ranks < 1) {
    throw Error(ExitCode::kUsage, "NQD3001",
                "asked for " + std::to_string(ranks) + " ranks, but a world has at least one",
                "give --ranks 1 or more");
  }
  local::run(ranks, options, body);
}

void run_world(const WorldOptions& options, const std::function<void(Communicator&)>& body) {
  const bool by_file = !options.rendezvous.empty();
  const LaunchIdentity identity = read_launch_identity(by_file);
  if (by_file) {
    check_rendezvous(options.backend, identity);
    check_asked(options, identity);
    return shm::run_by_files(options, identity, body);
  }
  check_backend(options.backend, identity);
  if (!is_multi_process(identity)) return run_threads(options.ranks.value_or(1), options, body);
  check_transport(identity);
  check_asked(options, identity);
  mpi::run(options, identity, body);
}

}  // namespace nqd::collectives
