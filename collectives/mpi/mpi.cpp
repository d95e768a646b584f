#include "collectives/mpi/mpi.h"

#include <mpi.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/log.h"
#include "collectives/host_map.h"
#include "collectives/liveness/relay.h"
#include "collectives/liveness/watchdog.h"
#include "collectives/mpi/backoff.h"
#include "collectives/mpi/mpi_check.h"
#include "collectives/mpi/mpi_transport.h"
#include "collectives/point_to_point.h"
#include "collectives/shm/shm_transport.h"

namespace nqd::collectives::mpi {
namespace {

// MPICH's launcher, when told not to end a job that has lost a rank (-disable-auto-cleanup), tells
// the others by SIGUSR1. Unhandled, that would end them before their watchdog has reported the
// loss.
void outlive_notice_of_lost_rank() {
  struct sigaction current {};
  ::sigaction(SIGUSR1, nullptr, &current);
  if (current.sa_handler == SIG_DFL) ::signal(SIGUSR1, SIG_IGN);
}

void initialize(const LaunchIdentity& identity) {
  if (identity.launcher == "mpich") outlive_notice_of_lost_rank();
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    throw Error(ExitCode::kEnvironment, "NQD3006", "MPI was started before in this process",
                "run one world per process");
  }
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(
        ExitCode::kEnvironment, "NQD3002",
        detail() + " offers no MPI_THREAD_MULTIPLE (level " + std::to_string(provided) + ")",
        "use an MPI library built with thread support");
  }
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == identity.world_size) return;
  throw Error(ExitCode::kEnvironment, "NQD3001",
              identity.launcher + " started " + std::to_string(identity.world_size) + " ranks (" +
                  identity.rank_source + "), but " + detail() + " sees " + std::to_string(size) +
                  (size == 1 ? ": the ranks were launched as singletons" : ""),
              "use the mpirun that belongs to this MPI library (`nqd doctor` names it)");
}

// Collective. The host name of every rank.
std::vector<std::string> gather_hosts(MPI_Comm world) {
  std::array<char, 256> mine{};
  const std::string name = read_host_info().hostname;
  std::memcpy(mine.data(), name.data(), std::min(name.size(), mine.size() - 1));
  int size = 0;
  MPI_Comm_size(world, &size);
  std::vector<std::array<char, 256>> all(static_cast<std::size_t>(size));
  check(MPI_Allgather(mine.data(), mine.size(), MPI_CHAR, all.data(), mine.size(), MPI_CHAR, world),
        "MPI_Allgather");
  std::vector<std::string> hosts;
  for (const auto& host : all) hosts.emplace_back(host.data());
  return hosts;
}

// Collective. The board of this host's ranks with this rank's slot in it, or a board of this rank
// alone where they cannot share memory.
std::pair<std::unique_ptr<Board>, std::uint32_t> open_board(MPI_Comm world) {
  int world_rank = 0;
  int world_size = 0;
  MPI_Comm_rank(world, &world_rank);
  MPI_Comm_size(world, &world_size);
  const auto world_ranks = static_cast<std::uint32_t>(world_size);
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &node),
        "MPI_Comm_split_type");
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);

  std::unique_ptr<Board> board;
  if (rank == 0) board = Board::create(static_cast<std::uint32_t>(size), world_ranks);
  Board::Address address = board ? board->address() : Board::Address{};
  check(MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, node), "MPI_Bcast");
  if (rank != 0) board = Board::attach(address);
  int attached = board ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &attached, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  auto slot = static_cast<std::uint32_t>(rank);
  if (attached == 0) {
    if (rank == 0) {
      log::warn("ranks of this host cannot share memory: a lost rank is noticed at the deadline");
    }
    board = Board::create(1, world_ranks);
    slot = 0;
  }
  board->enter(slot, world_rank);
  // Every slot is filled, and every process has mapped the board, before anyone reads or closes it.
  check(MPI_Barrier(node), "MPI_Barrier");
  board->close_descriptor();
  MPI_Comm_free(&node);
  return {std::move(board), slot};
}

// Collective. Every rank's way to two ranks of each other host, so that one that stands still does
// not keep the signs of life from its host; null on one host.
std::unique_ptr<Relay> open_relay(MPI_Comm world, const HostMap& hosts) {
  if (hosts.hosts() == 1) return nullptr;
  int world_rank = 0;
  MPI_Comm_rank(world, &world_rank);
  const auto rank = static_cast<std::size_t>(world_rank);
  std::uint64_t job = 0;
  if (rank == 0) {
    std::random_device random;
    job = std::uint64_t{random()} << 32 | random();
  }
  check(MPI_Bcast(&job, sizeof job, MPI_BYTE, 0, world), "MPI_Bcast");
  auto relay = std::make_unique<Relay>(job, world_rank);
  std::vector<Relay::Address> all(hosts.ranks());
  check(MPI_Allgather(&relay->address(), sizeof(Relay::Address), MPI_BYTE, all.data(),
                      sizeof(Relay::Address), MPI_BYTE, world),
        "MPI_Allgather");
  for (std::size_t host = 0; host < hosts.hosts(); ++host) {
    if (host == hosts.host_of(rank)) continue;
    const std::vector<int>& there = hosts.members(host);
    for (std::size_t k = 0; k < std::min<std::size_t>(2, there.size()); ++k) {
      const int peer = there[(hosts.place_of(rank) + k) % there.size()];
      relay->add_peer(all[static_cast<std::size_t>(peer)]);
    }
  }
  return relay;
}

// The MPI world of this process between MPI_Init and MPI_Finalize.
class Session {
 public:
  explicit Session(std::function<void(const Error&)> last_words) {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    std::vector<std::string> hosts = gather_hosts(control_);
    auto [board, slot] = open_board(control_);
    auto relay = open_relay(control_, HostMap(hosts));
    watchdog_ = std::make_unique<Watchdog>(std::move(board), slot, std::move(hosts),
                                           std::move(last_words), std::move(relay));
  }

  Watchdog& watchdog() { return *watchdog_; }

  std::unique_ptr<Transport> world_transport() {
    int size = 0;
    MPI_Comm_size(control_, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    MPI_Comm world = MPI_COMM_NULL;
    check(MPI_Comm_dup(control_, &world), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    auto transport = std::make_unique<MpiTransport>(*watchdog_, world, std::move(ranks), "world");
    transport->open_peer_memory();
    return transport;
  }

  // Collective. Returns when every rank's body has ended, however long that takes while its heart
  // beats.
  void finish(std::chrono::milliseconds deadline) {
    watchdog_->set_state(RankState::kBodyEnded);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(control_, &request), "MPI_Ibarrier");
    Backoff backoff;
    for (int done = 0; done == 0; backoff.pause()) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) break;
      watchdog_->fail_silent(deadline);
      if (watchdog_->faulted()) watchdog_->raise();
    }
    watchdog_->set_state(RankState::kFinished);
    MPI_Comm_free(&control_);
    check(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  MPI_Comm control_ = MPI_COMM_NULL;
  std::unique_ptr<Watchdog> watchdog_;
};

// Where a failed session stays: its watchdog keeps the launcher's SIGTERM away until the process,
// which MPI_Finalize could block for ever, has reported and ended.
Session*& failed_session() {
  static Session* session = nullptr;
  return session;
}

void run_session(Session& session, const WorldOptions& options,
                 const std::function<void(Communicator&)>& body) {
  {
    auto transport = session.world_transport();
    if (options.backend == "shm") {
      transport = shm::make_transport(session.watchdog(), std::move(transport));
    }
    transport->set_deadline(options.deadline);
    PointToPointCommunicator communicator(std::move(transport), options.check_calls);
    body(communicator);
  }
  session.finish(options.deadline);
}

}  // namespace

bool is_available() { return true; }

std::string detail() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  // Open MPI: "Open MPI v4.1.4, package: …"; MPICH: several lines.
  return version.substr(0, version.find_first_of(",\n"));
}

void run(const WorldOptions& options, const LaunchIdentity& identity,
         const std::function<void(Communicator&)>& body) {
  initialize(identity);
  auto session = std::make_unique<Session>(options.last_words);
  if (identity.world_size > 1) {
    log::set_thread_prefix("rank " + std::to_string(session->watchdog().own_world_rank()));
  }
  try {
    session->watchdog().guard([&] { run_session(*session, options, body); });
  } catch (...) {
    failed_session() = session.release();
    throw;
  }
}

}  // namespace nqd::collectives::mpi
