#include "collectives/mpi/mpi_transport.h"

#include <climits>
#include <utility>

#include "collectives/mpi/backoff.h"
#include "collectives/mpi/mpi_check.h"
#include "collectives/shared/share_segment.h"

namespace nqd::collectives::mpi {
namespace {

// `bytes` bytes as one datatype: MPI counts are ints, but a chunk may exceed 2 GiB.
class ByteType {
 public:
  explicit ByteType(std::size_t bytes) {
    if (bytes <= INT_MAX) {
      count_ = static_cast<int>(bytes);
      return;
    }
    constexpr std::size_t kBlock = std::size_t{1} << 30;
    MPI_Datatype block = MPI_BYTE;
    check(MPI_Type_contiguous(kBlock, MPI_BYTE, &block), "MPI_Type_contiguous");
    const int lengths[] = {static_cast<int>(bytes / kBlock), static_cast<int>(bytes % kBlock)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes / kBlock * kBlock)};
    const MPI_Datatype types[] = {block, MPI_BYTE};
    check(MPI_Type_create_struct(2, lengths, places, types, &type_), "MPI_Type_create_struct");
    MPI_Type_free(&block);
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  // A pending operation keeps the type alive.
  ~ByteType() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  ByteType(const ByteType&) = delete;
  ByteType& operator=(const ByteType&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace

MpiTransport::MpiTransport(Watchdog& watchdog, MPI_Comm communicator, std::vector<int> world_ranks,
                           const std::string& name)
    : Transport(name),
      watchdog_(watchdog),
      communicator_(communicator),
      world_ranks_(std::move(world_ranks)) {
  watched_ = world_ranks_;
  check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
}

MpiTransport::~MpiTransport() {
  // After a fault the library may wait for a rank that is gone; the process is about to end anyway.
  if (!watchdog_.faulted()) MPI_Comm_free(&communicator_);
}

void MpiTransport::do_check() {
  if (watchdog_.faulted()) watchdog_.raise();
}

MPI_Request* MpiTransport::post(const Posted& posted) {
  posted_.push_back(posted);
  requests_.push_back(MPI_REQUEST_NULL);
  return &requests_.back();
}

void MpiTransport::do_send(std::span<const std::byte> data, int to, int tag) {
  const ByteType bytes(data.size());
  check(MPI_Isend(data.data(), bytes.count(), bytes.type(), to, tag, communicator_,
                  post({to, false, data.size()})),
        "MPI_Isend");
}

void MpiTransport::do_receive(std::span<std::byte> data, int from, int tag) {
  const ByteType bytes(data.size());
  check(MPI_Irecv(data.data(), bytes.count(), bytes.type(), from, tag, communicator_,
                  post({from, true, data.size()})),
        "MPI_Irecv");
}

void MpiTransport::do_wait() {
  if (requests_.empty()) return;
  std::vector<MPI_Status> statuses(requests_.size());
  Backoff backoff;
  for (;;) {
    int done = 0;
    const int code =
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses.data());
    if (code != MPI_SUCCESS || done != 0) {
      try {
        check_outcome(code, statuses);
      } catch (...) {
        abandon();
        throw;
      }
      break;
    }
    if (backoff.waited() > deadline()) {
      watchdog_.fail_timeout(stage(), backoff.waited().count(), watched_, pending_peers());
    }
    if (watchdog_.must_stop_waiting()) {
      abandon();
      watchdog_.raise();
    }
    backoff.pause();
  }
  posted_.clear();
  requests_.clear();
}

void MpiTransport::check_outcome(int code, const std::vector<MPI_Status>& statuses) const {
  for (std::size_t i = 0; i < posted_.size(); ++i) {
    int error_class = MPI_SUCCESS;
    if (code == MPI_ERR_IN_STATUS) MPI_Error_class(statuses[i].MPI_ERROR, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) {
      throw_wrong_length(posted_[i].peer, "more", posted_[i].bytes);
    }
    if (error_class != MPI_SUCCESS && error_class != MPI_ERR_PENDING) {
      check(statuses[i].MPI_ERROR, "MPI_Testall");
    }
  }
  check(code, "MPI_Testall");
  for (std::size_t i = 0; i < posted_.size(); ++i) {
    if (!posted_[i].is_receive) continue;
    MPI_Count bytes = 0;
    check(MPI_Get_elements_x(&statuses[i], MPI_BYTE, &bytes), "MPI_Get_elements_x");
    if (static_cast<std::size_t>(bytes) != posted_[i].bytes) {
      throw_wrong_length(posted_[i].peer, std::to_string(bytes), posted_[i].bytes);
    }
  }
}

void MpiTransport::abandon() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (!posted_[i].is_receive || requests_[i] == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
}

std::vector<int> MpiTransport::pending_peers() {
  std::vector<int> peers;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    if (done != 0) continue;
    if (posted_[i].peer < 0) return world_ranks_;
    peers.push_back(world_rank(posted_[i].peer));
  }
  return peers;
}

std::vector<std::byte> MpiTransport::gather_control(std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * world_ranks_.size());
  const auto count = static_cast<int>(mine.size());
  check(MPI_Iallgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, communicator_,
                       post({-1, false, mine.size()})),
        "MPI_Iallgather");
  do_wait();
  return all;
}

PeerMemory::Options MpiTransport::peer_options() {
  PeerMemory::Options options;
  options.rank = rank_;
  options.size = size();
  options.spins = watchdog_.spins();
  options.check = [this](double waited_s) {
    if (waited_s > std::chrono::duration<double>(deadline()).count()) {
      // There is no one to ask before the first of all waits has ended.
      std::vector<int> pending = peers_ ? peers_->missing() : world_ranks_;
      if (peers_) {
        for (int& rank : pending) rank = world_rank(rank);
      }
      if (!pending.empty()) watchdog_.fail_timeout(stage(), waited_s, watched_, pending);
    }
    if (watchdog_.must_stop_waiting()) watchdog_.raise();
  };
  options.unreadable = [this](int) { watchdog_.raise_if_faulted_soon(); };
  return options;
}

void MpiTransport::open_peer_memory() {
  if (hosts().hosts() > 1) {
    const std::size_t host = hosts().host_of(static_cast<std::size_t>(rank_));
    host_group_ = subgroup(hosts().members(host), group());
    static_cast<MpiTransport&>(*host_group_).watched_ = world_ranks_;
    return;
  }
  auto control = share_segment(*this, PeerMemory::control_bytes(size()));
  if (control) peers_ = std::make_unique<PeerMemory>(std::move(control), peer_options());
}

PeerMemory* MpiTransport::host_memory() {
  if (!host_group_) return peers_.get();
  host_group_->follow(*this);
  return host_group_->peer_memory();
}

std::unique_ptr<Watchdog::LibraryCall> MpiTransport::library_call() const {
  return std::make_unique<Watchdog::LibraryCall>(watchdog_, stage(), world_ranks_, deadline());
}

std::unique_ptr<Transport> MpiTransport::subgroup(const std::vector<int>& members,
                                                  const std::string& name) {
  const auto guard = library_call();
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group part = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  check(MPI_Comm_group(communicator_, &all), "MPI_Comm_group");
  check(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &part),
        "MPI_Group_incl");
  check(MPI_Comm_create_group(communicator_, part, kControlTag, &communicator),
        "MPI_Comm_create_group");
  MPI_Group_free(&part);
  MPI_Group_free(&all);
  check(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(world_rank(member));
  auto part_transport =
      std::make_unique<MpiTransport>(watchdog_, communicator, std::move(world_ranks), name);
  part_transport->set_deadline(deadline());
  part_transport->open_peer_memory();
  return part_transport;
}

}  // namespace nqd::collectives::mpi
