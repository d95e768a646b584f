// Starting the ranks of a job: as threads of this process, or as the processes that mpirun started.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace nqd::collectives {

struct WorldOptions {
  // Ranks asked for. Empty: the launcher's world size, or 1 without a launcher.
  std::optional<int> ranks;
  std::chrono::milliseconds deadline{60'000};
  // Makes ranks that are threads pretend to be on several hosts: the host name of each, for tests
  // of what ranks of different hosts do. Empty: this host.
  std::vector<std::string> pretended_hosts{};
  // "local": threads of this process. "mpi": the launcher's processes, through MPI. "shm": the
  // same, on one host, with messages through memory that they share. "auto": mpi under a launcher,
  // else local.
  std::string backend = "auto";
  // "file:PATH": processes that a launcher started on one host meet by a file instead of by MPI,
  // and run on the shm backend. Empty: by MPI.
  std::string rendezvous{};
  // Before every collective and split the ranks compare what they call (collective, sequence
  // number, bytes, type, operator, root, algorithm), and a difference is Error (kFault, NQD4005) on
  // all of them. Costs an exchange of all ranks a call. Sends and receives are not compared.
  bool check_calls = false;
  // Called at most once, with the error that the body would have got, on a thread of its own, when
  // the body of a rank that is a process has not come back from its own work a moment after a
  // fault; the process ends when it returns. For what must be written before that; it must not
  // throw.
  std::function<void(const Error&)> last_words{};
  // Called while processes wait for each other at a rendezvous; what it throws ends the wait.
  std::function<void()> check_stop{};
};

// What the launcher said about this process before MPI is asked, with the variable it came from.
struct LaunchIdentity {
  // "none", "openmpi", "mpich", "slurm", "torchrun"; "env": RANK and WORLD_SIZE alone
  std::string launcher = "none";
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  bool several_hosts = false;  // the launcher says that its ranks are on more than one
  std::string rank_source;     // environment variable, or empty
};
// Reads the environment only. RANK and WORLD_SIZE by themselves, which an environment may hold for
// other reasons, count where the user asks for a rendezvous, also in the shell of a Slurm step of
// one task. Throws Error (kEnvironment, NQD3004)
// when two launchers disagree.
LaunchIdentity read_launch_identity(bool rendezvous = false);

// The backends of this build with why one is missing: {"local", true, ""}, {"mpi", false, "built
// with NQD_WITH_MPI=OFF"}. "shm" says how long messages between processes travel.
struct BackendStatus {
  std::string name;
  bool available = false;
  std::string detail;  // the library's version string, or the reason
};
std::vector<BackendStatus> backend_status();

// Runs `body` once per rank that lives in this process: under mpirun (world > 1 or launcher
// present) one call on the calling thread with the MPI world; otherwise `ranks` threads with the
// local backend. Returns after every local rank's body returned.
//
// Throws Error NQD3007 when options.backend names no backend, or options.rendezvous no file
// (kUsage), or one that cannot run here (kEnvironment): local under a launcher, mpi and shm without
// one, shm across hosts, a rendezvous of no launcher or for another backend than shm. Throws Error
// (kEnvironment, NQD3001) when options.ranks differs from the launcher's world size; NQD3003 when a
// launcher is present but this build has no MPI. The first failure of a body is rethrown after all
// local ranks ended, the root cause before the PeerLostErrors that it caused.
void run_world(const WorldOptions& options, const std::function<void(Communicator&)>& body);

// The local backend alone: what unit tests use.
void run_threads(int ranks, const WorldOptions& options,
                 const std::function<void(Communicator&)>& body);

// After a failed run: ends this process with `code` without waiting for peers (MPI_Finalize would).
// Only cli/main.cpp calls it.
[[noreturn]] void abort_process(int code);

}  // namespace nqd::collectives
