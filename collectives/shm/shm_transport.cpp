#include "collectives/shm/shm_transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "collectives/shared/cross_memory.h"
#include "collectives/shared/share_segment.h"

namespace nqd::collectives::shm {
namespace {

// Up to here two copies through the cache are faster than the handshake and system call of one.
constexpr std::size_t kCopyBytes = kCellBytes;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

bool is_collective(int tag) { return tag >= kFirstCollectiveTag; }

}  // namespace

std::unique_ptr<Transport> make_transport(Watchdog& watchdog, std::unique_ptr<Transport> base) {
  auto segment = share_segment(*base, ShmTransport::bytes(base->size()));
  if (segment) {
    return std::make_unique<ShmTransport>(watchdog, std::move(base), std::move(segment));
  }
  Error error(ExitCode::kEnvironment, "NQD3007",
              "the ranks of group " + base->group() +
                  " do not share memory (several hosts, or containers that do not see each other's "
                  "processes), so the shm backend cannot run",
              "use --backend mpi, or start all ranks on one host");
  error.set_quiet(base->rank() != 0);
  throw error;
}

// The bells by rank, then the channels by receiver and sender.
std::size_t ShmTransport::bytes(int size) {
  return index(size) * sizeof(Phase) + index(size) * index(size) * sizeof(Channel);
}

ShmTransport::ShmTransport(Watchdog& watchdog, std::unique_ptr<Transport> base,
                           std::shared_ptr<Segment> segment)
    : Transport(base->group()),
      watchdog_(watchdog),
      base_(std::move(base)),
      segment_(std::move(segment)),
      spins_(watchdog.spins()),
      can_pull_(base_->peer_memory() != nullptr && base_->peer_memory()->can_pull()) {
  auto* const channels =
      std::launder(reinterpret_cast<Channel*>(segment_->data() + index(size()) * sizeof(Phase)));
  for (int other = 0; other < size(); ++other) {
    world_ranks_.push_back(world_rank(other));
    Peer& peer = peers_.emplace_back();
    peer.rank = other;
    peer.out = channels + index(other) * index(size()) + index(rank());
    peer.in = channels + index(rank()) * index(size()) + index(other);
  }
}

Phase& ShmTransport::bell(int rank) const {
  return std::launder(reinterpret_cast<Phase*>(segment_->data()))[index(rank)];
}

void ShmTransport::do_check() {
  if (watchdog_.faulted()) watchdog_.raise();
}

void ShmTransport::do_send(std::span<const std::byte> data, int to, int tag) {
  Send send{data, tag, {}, false, 0, 0};
  if (data.size() > kCopyBytes) {
    send.place = place_of(data.data(), data.size());
    send.in_place = can_pull_ || send.place.segment.descriptor >= 0;
  }
  Peer& peer = peers_[index(to)];
  peer.sends.push_back(send);
  push_sends(peer);
}

void ShmTransport::do_receive(std::span<std::byte> data, int from, int tag) {
  peers_[index(from)].receives.push_back({data, tag, false});
}

void ShmTransport::do_wait() {
  const auto start = std::chrono::steady_clock::now();
  const std::function<void(double)> check = [this, start](double) { check_progress(start); };
  Phase& own_bell = bell(rank());
  try {
    for (;;) {
      const std::uint32_t seen = own_bell.count();
      if (progress()) break;
      own_bell.await(seen + 1, spins_, check);
    }
  } catch (...) {
    forget_posted();
    throw;
  }
  forget_posted();
}

bool ShmTransport::progress() {
  bool done = true;
  for (Peer& peer : peers_) {
    if (peer.done()) continue;
    push_sends(peer);
    take_messages(peer);
    while (peer.ended < peer.pushed) {
      const Send& oldest = peer.sends[peer.ended];
      if (oldest.in_place && !peer.out->has_taken(oldest.cells)) break;
      ++peer.ended;
    }
    done = done && peer.done();
  }
  return done;
}

void ShmTransport::push_sends(Peer& peer) {
  for (; peer.pushed < peer.sends.size(); ++peer.pushed) {
    Send& send = peer.sends[peer.pushed];
    do {
      Cell* const cell = peer.out->free_cell();
      if (cell == nullptr) return;
      fill(*cell, send);
      peer.out->push();
      bell(peer.rank).ring();
    } while (!send.in_place && send.copied < send.data.size());
    send.cells = peer.out->pushed();
  }
}

void ShmTransport::fill(Cell& cell, Send& send) const {
  cell.tag = send.tag;
  cell.collective = stage().collective;
  cell.sequence = stage().sequence;
  cell.message_bytes = send.data.size();
  if (send.in_place) {
    cell.kind = Cell::Kind::kPlace;
    cell.place = send.place;
    cell.freed = freed_shared_buffers();
    return;
  }
  cell.kind = Cell::Kind::kCopy;
  cell.part_bytes = std::min(kCellBytes, send.data.size() - send.copied);
  if (cell.part_bytes > 0) {
    std::memcpy(cell.data.data(), send.data.data() + send.copied, cell.part_bytes);
  }
  send.copied += cell.part_bytes;
}

void ShmTransport::take_messages(Peer& peer) {
  if (!peer.early.empty()) take_early(peer);
  // What nobody waits for stays in the channel, so that a sender that runs ahead is held back.
  while (peer.received < peer.receives.size()) {
    const Cell* const cell = peer.in->front();
    if (cell == nullptr) return;
    if (!peer.arriving.active) begin_message(peer, *cell);
    const bool sender_waits = cell->kind == Cell::Kind::kPlace;
    take_part(peer, *cell);
    if (peer.in->pop() || sender_waits) bell(peer.rank).ring();
    if (peer.arriving.done == peer.arriving.target.size()) end_message(peer);
  }
}

void ShmTransport::take_early(Peer& peer) {
  for (Receive& receive : peer.receives) {
    if (receive.done) continue;
    const auto found = std::find_if(peer.early.begin(), peer.early.end(), [&](const Early& early) {
      return early.complete && early.tag == receive.tag;
    });
    if (found == peer.early.end()) continue;
    if (found->data.size() != receive.data.size()) {
      throw_wrong_length(peer.rank, std::to_string(found->data.size()), receive.data.size());
    }
    std::copy(found->data.begin(), found->data.end(), receive.data.begin());
    peer.early.erase(found);
    receive.done = true;
    ++peer.received;
  }
}

void ShmTransport::begin_message(Peer& peer, const Cell& cell) {
  bool in_collective = false;
  for (Receive& receive : peer.receives) {
    if (receive.done) continue;
    in_collective = in_collective || is_collective(receive.tag);
    if (receive.tag != cell.tag) continue;
    if (receive.data.size() != cell.message_bytes) {
      throw_wrong_length(peer.rank, std::to_string(cell.message_bytes), receive.data.size());
    }
    peer.arriving = {true, &receive, receive.data, 0};
    return;
  }
  // Every rank makes the collectives of a group in one order, and leaves none before its messages
  // have come.
  if (in_collective && is_collective(cell.tag)) throw_crossed(peer, cell);
  peer.early.push_back({cell.tag, std::vector<std::byte>(cell.message_bytes), false});
  peer.arriving = {true, nullptr, peer.early.back().data, 0};
}

void ShmTransport::take_part(Peer& peer, const Cell& cell) {
  const auto rest = peer.arriving.target.subspan(peer.arriving.done);
  if (cell.kind == Cell::Kind::kPlace) {
    copy_from_place(peer, cell, rest);
    peer.arriving.done += rest.size();
  } else if (cell.part_bytes > 0) {
    std::memcpy(rest.data(), cell.data.data(), cell.part_bytes);
    peer.arriving.done += cell.part_bytes;
  }
}

void ShmTransport::end_message(Peer& peer) {
  peer.arriving.active = false;
  if (peer.arriving.receive != nullptr) {
    peer.arriving.receive->done = true;
    ++peer.received;
    return;
  }
  peer.early.back().complete = true;
  take_early(peer);
}

void ShmTransport::copy_from_place(Peer& peer, const Cell& cell, std::span<std::byte> to) {
  if (peer.freed != cell.freed) peer.mappings.clear();
  peer.freed = cell.freed;
  std::string reason;
  if (cell.place.segment.descriptor >= 0) {
    std::shared_ptr<Segment>& mapping = peer.mappings[cell.place.segment.nonce];
    if (!mapping) mapping = attach_shared(cell.place.segment);
    if (mapping) {
      std::memcpy(to.data(), mapping->data() + cell.place.offset, to.size());
      return;
    }
    reason = "its shared buffer cannot be mapped";
  } else {
    const int code = read_process_memory(cell.place.segment.pid, cell.place.address, to);
    if (code == 0) return;
    reason = std::strerror(code);
  }
  // A process that dies loses its memory and descriptors first.
  watchdog_.raise_if_faulted_soon();
  throw Error(ExitCode::kFault, "NQD4011",
              "reading a message of " + std::to_string(to.size()) + " bytes from rank " +
                  std::to_string(world_rank(peer.rank)) + " (process " +
                  std::to_string(cell.place.segment.pid) + ") failed: " + reason,
              "free memory, raise the limits on mappings and open files, or set "
              "NQD_CROSS_MEMORY=off when process_vm_readv has been forbidden meanwhile");
}

void ShmTransport::throw_crossed(const Peer& peer, const Cell& cell) const {
  throw Error(ExitCode::kFault, "NQD4005",
              "rank " + std::to_string(world_rank(rank())) + " is in " + describe(stage()) +
                  ", rank " + std::to_string(world_rank(peer.rank)) + " on host " +
                  host(peer.rank) + " in " +
                  describe(Stage{group(), cell.collective, cell.sequence, 0, true}),
              "every rank must make the same calls in the same order");
}

void ShmTransport::check_progress(std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  if (waited > deadline()) {
    std::vector<int> pending;
    for (const Peer& peer : peers_) {
      if (!peer.done()) pending.push_back(world_rank(peer.rank));
    }
    watchdog_.fail_timeout(stage(), waited.count(), world_ranks_, pending);
  }
  if (watchdog_.must_stop_waiting()) watchdog_.raise();
}

void ShmTransport::forget_posted() {
  for (Peer& peer : peers_) {
    peer.sends.clear();
    peer.receives.clear();
    peer.pushed = peer.ended = peer.received = 0;
  }
}

std::vector<std::byte> ShmTransport::gather_control(std::span<const std::byte> mine) {
  base_->follow(*this);
  return base_->gather_control(mine);
}

std::unique_ptr<Transport> ShmTransport::subgroup(const std::vector<int>& members,
                                                  const std::string& name) {
  base_->follow(*this);
  return make_transport(watchdog_, base_->subgroup(members, name));
}

}  // namespace nqd::collectives::shm
