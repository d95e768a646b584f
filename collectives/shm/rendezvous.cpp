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
  for (const char* variable :
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
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
  std::vector<std::byte> exchange(const char* place, std::span<const std::byte> mine) {
    meeting_.run = place + job_of(identity_);
    return meet_by_files(meeting_, mine);
  }

  // Fills board_ and control_; the host of every rank.
  std::vector<std::string> meet() {
    const auto ranks = static_cast<std::uint32_t>(identity_.world_size);
    Arrival mine;
    std::memcpy(mine.host.data(), meeting_.host.data(),
                std::min(meeting_.host.size(), mine.host.size() - 1));
    if (identity_.rank == 0) {
      board_ = Board::create(ranks, ranks);
      control_ = Segment::create(ProcessTransport::control_bytes(identity_.world_size));
      mine.board = board_->address();
      mine.control = control_->address();
    }
    const auto bytes = exchange("1 ", std::as_bytes(std::span(&mine, 1)));
    std::vector<Arrival> all(ranks);
    std::memcpy(all.data(), bytes.data(), bytes.size());
    std::vector<std::string> hosts;
    for (const Arrival& one : all) hosts.emplace_back(one.host.data());
    check_one_host(hosts);
    if (identity_.rank != 0) {
      board_ = Board::attach(all[0].board);
      control_ = Segment::attach(all[0].control);
    }
    const std::byte attached{board_ && control_ ? std::uint8_t{1} : std::uint8_t{0}};
    if (attached == std::byte{1}) {
      board_->enter(static_cast<std::uint32_t>(identity_.rank), identity_.rank);
    }
    const auto answers = exchange("2 ", std::span(&attached, 1));
    if (std::find(answers.begin(), answers.end(), std::byte{0}) != answers.end()) {
      refuse(identity_,
             "the ranks of host " + hosts[0] +
                 " do not share memory (containers that do not see each other's processes)");
    }
    board_->close_descriptor();
    control_->close_descriptor();
    return hosts;
  }

  void check_one_host(const std::vector<std::string>& hosts) const {
    const std::set<std::string> distinct(hosts.begin(), hosts.end());
    if (distinct.size() == 1) return;
    std::string names;
    for (const std::string& host : distinct) names += (names.empty() ? "" : ", ") + host;
    refuse(identity_,
           "the ranks are on " + std::to_string(distinct.size()) + " hosts (" + names + ")");
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
