#include "collectives/shm/process_transport.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "collectives/shared/phase.h"

namespace nqd::collectives::shm {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

constexpr std::size_t kLine = 64;

// Handovers lie behind what PeerMemory shares.
std::size_t handovers_at(int size) {
  return (PeerMemory::control_bytes(size) + kLine - 1) / kLine * kLine;
}

[[noreturn]] void throw_no_messages() {
  throw std::logic_error("messages between processes go through ShmTransport");
}

}  // namespace

// From one rank to another, one address at a time: both count what was given and taken, so that
// neither has to know of the groups that the other forms without it.
struct ProcessTransport::Handover {
  Phase given;
  Phase taken;
  Segment::Address address;
};

std::size_t ProcessTransport::control_bytes(int size) {
  return handovers_at(size) + index(size) * index(size) * sizeof(Handover);
}

ProcessTransport::ProcessTransport(Watchdog& watchdog, std::shared_ptr<Segment> control,
                                   Group group)
    : Transport(group.name),
      watchdog_(watchdog),
      control_(std::move(control)),
      group_(std::move(group)) {
  set_deadline(group_.deadline);
  PeerMemory::Options options;
  options.rank = rank();
  options.size = size();
  options.spins = watchdog_.spins();
  options.check = [this](double waited_s) {
    // There is no one to ask before the first of all waits has ended.
    std::vector<int> pending = group_.world_ranks;
    if (peers_) {
      pending = peers_->missing();
      for (int& rank : pending) rank = world_rank(rank);
    }
    check_wait(waited_s, pending);
  };
  options.unreadable = [this](int) { watchdog_.raise_if_faulted_soon(); };
  peers_ = std::make_unique<PeerMemory>(control_, std::move(options));
}

void ProcessTransport::check_wait(double waited_s, const std::vector<int>& pending) {
  const bool late = waited_s > std::chrono::duration<double>(deadline()).count();
  if (late && !pending.empty()) {
    watchdog_.fail_timeout(stage(), waited_s, group_.world_ranks, pending);
  }
  if (watchdog_.must_stop_waiting()) watchdog_.raise();
}

std::vector<std::byte> ProcessTransport::gather_control(std::span<const std::byte> mine) {
  const std::span<std::byte> shown = peers_->staging(mine.size());
  std::copy(mine.begin(), mine.end(), shown.begin());
  const DirectCall call{Collective::kAllGather, DType::kUInt8, ReduceOp::kSum, 0,
                        mine.size() * index(size())};
  peers_->open(call, shown, {});
  std::vector<std::byte> all(mine.size() * index(size()));
  for (int peer = 0; peer < size(); ++peer) {
    peers_->read_in(peer, 0, std::span(all).subspan(index(peer) * mine.size(), mine.size()));
  }
  peers_->sync();
  return all;
}

std::unique_ptr<Transport> ProcessTransport::subgroup(const std::vector<int>& members,
                                                      const std::string& name) {
  const int first = members.front();
  std::shared_ptr<Segment> control;
  if (rank() == first) {
    control = Segment::create(control_bytes(static_cast<int>(members.size())));
    for (std::size_t i = 1; i < members.size(); ++i) give(members[i], control->address());
  } else {
    const Segment::Address address = take(first);
    control = Segment::attach(address);
    if (!control) {
      watchdog_.raise_if_faulted_soon();
      throw Error(ExitCode::kFault, "NQD4011",
                  "the shared memory of group " + name + " (" + std::to_string(address.bytes) +
                      " bytes of process " + std::to_string(address.pid) + ") cannot be mapped",
                  "free memory, or raise the limits on mappings and open files of this process");
    }
  }
  Group part{name, 0, {}, deadline()};
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == rank()) part.rank = static_cast<int>(i);
    part.world_ranks.push_back(world_rank(members[i]));
  }
  auto transport = std::make_unique<ProcessTransport>(watchdog_, control, std::move(part));
  // By now all have mapped it.
  control->close_descriptor();
  return transport;
}

ProcessTransport::Handover& ProcessTransport::handover(int from, int to) const {
  auto* const all =
      std::launder(reinterpret_cast<Handover*>(control_->data() + handovers_at(size())));
  return all[index(from) * index(size()) + index(to)];
}

void ProcessTransport::give(int to, const Segment::Address& address) {
  Handover& slot = handover(rank(), to);
  slot.taken.await(slot.given.count(), watchdog_.spins(),
                   [&](double waited_s) { check_wait(waited_s, {world_rank(to)}); });
  slot.address = address;
  slot.given.ring();
}

Segment::Address ProcessTransport::take(int from) {
  Handover& slot = handover(from, rank());
  slot.given.await(slot.taken.count() + 1, watchdog_.spins(),
                   [&](double waited_s) { check_wait(waited_s, {world_rank(from)}); });
  const Segment::Address address = slot.address;
  slot.taken.ring();
  return address;
}

void ProcessTransport::do_check() {
  if (watchdog_.faulted()) watchdog_.raise();
}

void ProcessTransport::do_send(std::span<const std::byte>, int, int) { throw_no_messages(); }
void ProcessTransport::do_receive(std::span<std::byte>, int, int) { throw_no_messages(); }
void ProcessTransport::do_wait() { throw_no_messages(); }

}  // namespace nqd::collectives::shm
