#include "collectives/shm/rendezvous.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/log.h"
#include "collectives/file_meeting.h"
#include "collectives/liveness/watchdog.h"
#include "collectives/meeting_place.h"
#include "collectives/point_to_point.h"
#include "collectives/shm/process_transport.h"
#include "collectives/shm/shm_transport.h"

namespace nqd::collectives::shm {
namespace {

constexpr std::string_view kScheme = "file:";
constexpr std::chrono::milliseconds kLookEvery{1};

// What a rank brings to the first meeting; the addresses are rank 0's.
struct Arrival {
  std::array<char, 256> host{};
  Board::Address board;
  Segment::Address control;
};

// And to the second: whether it is on rank 0's board. `obstacle` counts of rank 0 alone.
struct Report {
  std::uint8_t attached = 0;
  std::uint8_t contested = 0;
  std::array<char, 1022> obstacle{};
};

template <std::size_t N>
void put(std::array<char, N>& field, const std::string& text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), N - 1));
}

std::filesystem::path path_of(const std::string& rendezvous) {
  if (rendezvous.starts_with(kScheme) && rendezvous.size() > kScheme.size()) {
    return rendezvous.substr(kScheme.size());
  }
  throw Error(ExitCode::kUsage, "NQD3007", "there is no rendezvous `" + rendezvous + "`",
              "use file:PATH, with a path that all ranks see and no other run uses");
}

// What tells this job from others at the same path, as far as its launcher says.
std::string job_of(const LaunchIdentity& identity) {
  std::string job = identity.launcher;
  for (const char* variable : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID",
                               "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT"}) {
    const char* value = std::getenv(variable);
    job += std::string(" ") + (value == nullptr ? "-" : value);
  }
  return job;
}

[[noreturn]] void refuse(const LaunchIdentity& identity, const std::string& what) {
  Error error(ExitCode::kEnvironment, "NQD3007",
              what + ": without MPI ranks talk through the memory of one host",
              "start all ranks on one host and in one container, or use mpirun (srun with PMI) and "
              "no --rendezvous");
  error.set_quiet(identity.rank != 0);
  throw error;
}

// The world of this process from the meeting to the end of all bodies.
class Session {
 public:
  Session(const WorldOptions& options, const LaunchIdentity& identity) : identity_(identity) {
    meeting_.path = path_of(options.rendezvous);
    meeting_.rank = identity.rank;
    meeting_.ranks = identity.world_size;
    meeting_.host = read_host_info().hostname;
    meeting_.local_rank = identity.local_rank;
    meeting_.deadline = options.deadline;
    meeting_.check_stop = options.check_stop;
    if (identity.several_hosts) {
      refuse(identity, identity.launcher + " started the ranks on several hosts");
    }
    std::vector<std::string> hosts = meet();
    watchdog_ =
        std::make_unique<Watchdog>(std::move(board_), static_cast<std::uint32_t>(identity.rank),
                                   std::move(hosts), options.last_words);
  }

  Watchdog& watchdog() { return *watchdog_; }

  void run(const WorldOptions& options, const std::function<void(Communicator&)>& body) {
    {
      ProcessTransport::Group world{"world", identity_.rank, {}, options.deadline};
      world.world_ranks.resize(static_cast<std::size_t>(identity_.world_size));
      std::iota(world.world_ranks.begin(), world.world_ranks.end(), 0);
      auto transport = make_transport(
          *watchdog_,
          std::make_unique<ProcessTransport>(*watchdog_, std::move(control_), std::move(world)));
      transport->set_deadline(options.deadline);
      PointToPointCommunicator communicator(std::move(transport), options.check_calls);
      body(communicator);
    }
    finish(options.deadline);
  }

 private:
  // Every rank's `mine`, in the meeting of that name.
  template <typename T>
  std::vector<T> exchange(const std::string& name, const T& mine) {
    meeting_.run = name + " " + job_of(identity_);
    const auto bytes = meet_by_files(meeting_, std::as_bytes(std::span(&mine, 1)));
    std::vector<T> all(static_cast<std::size_t>(identity_.world_size));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }

  // Fills board_ and control_; the host of every rank.
  std::vector<std::string> meet() {
    const auto ranks = static_cast<std::uint32_t>(identity_.world_size);
    meeting_.run = job_of(identity_);
    const MeetingLock lock(meeting_);
    Arrival mine;
    put(mine.host, meeting_.host);
    if (identity_.rank == 0) {
      board_ = Board::create(ranks, ranks);
      control_ = Segment::create(ProcessTransport::control_bytes(identity_.world_size));
      mine.board = board_->address();
      mine.control = control_->address();
    }
    const std::vector<Arrival> all = exchange("1", mine);
    // Others' may be of an earlier run: only rank 0 waits until each rank has come itself.
    if (identity_.rank != 0 && all[0].host == mine.host) {
      board_ = Board::attach(all[0].board);
      control_ = Segment::attach(all[0].control);
    }
    Report report;
    report.attached = board_ && control_ ? 1 : 0;
    report.contested = lock.contested() ? 1 : 0;
    if (identity_.rank == 0) put(report.obstacle, several_hosts(all));
    if (report.attached == 1) {
      board_->enter(static_cast<std::uint32_t>(identity_.rank), identity_.rank);
    }
    // Rank 0's number: what another rank 0 has at this path, now or later, is no answer.
    judge(exchange("2 " + std::to_string(all[0].board.nonce), report), all[0].host.data());
    // One that came since the report: the others see that this rank is lost.
    if (lock.contested()) throw_contested(identity_.rank);
    board_->close_descriptor();
    control_->close_descriptor();
    return std::vector<std::string>(ranks, all[0].host.data());
  }

  [[noreturn]] void throw_contested(int rank) const {
    Error error(ExitCode::kEnvironment, "NQD3007",
                "two processes came as rank " + std::to_string(rank) + " to " +
                    meeting_.path.string() + ": ranks of two jobs may have met",
                "give every job a rendezvous of its own");
    error.set_quiet(identity_.rank != 0 && identity_.rank != rank);
    throw error;
  }

  // Throws on all ranks what the reports say against this world.
  void judge(const std::vector<Report>& reports, const std::string& host) const {
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      if (reports[rank].contested != 0) throw_contested(static_cast<int>(rank));
    }
    if (reports[0].obstacle[0] != '\0') refuse(identity_, reports[0].obstacle.data());
    if (std::any_of(reports.begin(), reports.end(),
                    [](const Report& report) { return report.attached == 0; })) {
      refuse(identity_,
             "the ranks of host " + host +
                 " do not share memory (containers that do not see each other's processes)");
    }
  }

  // What is wrong with the ranks' hosts; nothing where they are one.
  static std::string several_hosts(const std::vector<Arrival>& all) {
    std::set<std::string> distinct;
    for (const Arrival& one : all) distinct.insert(one.host.data());
    if (distinct.size() == 1) return "";
    std::string names;
    for (const std::string& host : distinct) names += (names.empty() ? "" : ", ") + host;
    return "the ranks are on " + std::to_string(distinct.size()) + " hosts (" + names + ")";
  }

  // Returns when every rank's body has ended, however long that takes while its heart beats.
  void finish(std::chrono::milliseconds deadline) {
    watchdog_->set_state(RankState::kBodyEnded);
    while (!watchdog_->all_ended()) {
      watchdog_->fail_silent(deadline);
      if (watchdog_->faulted()) watchdog_->raise();
      std::this_thread::sleep_for(kLookEvery);
    }
    watchdog_->set_state(RankState::kFinished);
  }

  const LaunchIdentity identity_;
  FileMeeting meeting_;
  std::unique_ptr<Board> board_;      // until the watchdog has it
  std::shared_ptr<Segment> control_;  // until the transport has it
  std::unique_ptr<Watchdog> watchdog_;
};

// Where a failed session stays: its watchdog keeps the launcher's SIGTERM away until the process
// has reported and ended.
Session*& failed_session() {
  static Session* session = nullptr;
  return session;
}

}  // namespace

void run_by_files(const WorldOptions& options, const LaunchIdentity& identity,
                  const std::function<void(Communicator&)>& body) {
  auto session = std::make_unique<Session>(options, identity);
  log::set_thread_prefix("rank " + std::to_string(identity.rank));
  try {
    session->watchdog().guard([&] { session->run(options, body); });
  } catch (...) {
    failed_session() = session.release();
    throw;
  }
}

}  // namespace nqd::collectives::shm
