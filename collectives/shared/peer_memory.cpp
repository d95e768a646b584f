#include "collectives/shared/peer_memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "collectives/shared/cross_memory.h"

namespace nqd::collectives {

// A small vector up to this size goes through its rank's slot; a longer one in shared memory is
// read where it is. With 2 ranks on 2 cores, all_reduce of float32: 256 bytes through slots take
// 0.42 µs, 2 KiB in place 0.49 µs, 4 KiB through slots several times as long as in place.
constexpr std::size_t kSlotBytes = 256;

// A wait of two ranks for each other, without delay, on caches that are far. Measured 0.02 µs where
// the cores share all caches, 0.05 µs where they share the last level and 0.2 µs where none.
constexpr std::chrono::nanoseconds kFarWait{120};

// Written by its rank before it arrives, read by the others after.
struct PeerMemory::Record {
  DirectCall call;
  BufferPlace in;
  BufferPlace out;
  std::uint32_t freed = 0;
  std::uint32_t in_place = 0;  // 1: a small vector is read in place, not from the slot
};

// Two records and two slots, used in turn: a rank that opens call k+2 has seen all others in call
// k+1, so that none still reads what it left for call k.
struct PeerMemory::SharedRank {
  Phase phase;
  std::array<Record, 2> records;
  alignas(64) std::byte small[2][kDirectSmallBytes];
};

std::string describe(const DirectCall& call) {
  std::string text = std::string(name(call.collective)) + " of " + std::to_string(call.bytes) +
                     " bytes of " + std::string(name(call.type));
  switch (call.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      return text + ", " + std::string(name(call.op));
    case Collective::kReduce:
      return text + ", " + std::string(name(call.op)) + " to rank " + std::to_string(call.root);
    case Collective::kGather:
      return text + " to rank " + std::to_string(call.root);
    case Collective::kScatter:
    case Collective::kBroadcast:
      return text + " from rank " + std::to_string(call.root);
    case Collective::kAllGather:
    case Collective::kBarrier:
    case Collective::kSendRecv:
    case Collective::kAllToAll:
      break;
  }
  return text;
}

std::size_t PeerMemory::control_bytes(int size) { return index(size) * sizeof(SharedRank); }

PeerMemory::PeerMemory(std::shared_ptr<Segment> control, Options options)
    : control_(std::move(control)),
      options_(std::move(options)),
      views_(index(options_.size)),
      smalls_(index(options_.size)) {
  // The phase lies zero-filled in the segment, which is its initial state: peers may look at it
  // before its rank gets here.
  probe();
}

PeerMemory::~PeerMemory() = default;

PeerMemory::SharedRank& PeerMemory::shared(int rank) const {
  return std::launder(reinterpret_cast<SharedRank*>(control_->data()))[rank];
}

PeerMemory::Record& PeerMemory::record(int rank) const { return shared(rank).records[calls_ % 2]; }

void PeerMemory::write_record(const DirectCall& call, std::span<const std::byte> in,
                              std::span<std::byte> out) {
  ++calls_;
  Record& mine = record(options_.rank);
  mine.call = call;
  mine.in = place_of(in.data(), in.size());
  mine.out = place_of(out.data(), out.size());
  mine.freed = freed_shared_buffers();
}

void PeerMemory::arrive_and_wait() {
  shared(options_.rank).phase.advance_to(++phase_);
  for (int peer = 0; peer < options_.size; ++peer) {
    if (peer != options_.rank) shared(peer).phase.await(phase_, options_.spins, options_.check);
  }
}

std::vector<int> PeerMemory::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (!shared(rank).phase.has_reached(phase_)) ranks.push_back(rank);
  }
  return ranks;
}

void PeerMemory::check_equal(const DirectCall& mine) const {
  for (int peer = 0; peer < options_.size; ++peer) {
    const DirectCall& other = record(peer).call;
    if (other == mine) continue;
    throw Error(ExitCode::kFault, "NQD4005",
                "rank " + std::to_string(options_.rank) + " of the group calls " + describe(mine) +
                    ", rank " + std::to_string(peer) + " calls " + describe(other),
                "every rank must make the same calls in the same order, with the same count, type "
                "and operator");
  }
}

void PeerMemory::open(const DirectCall& call, std::span<const std::byte> in,
                      std::span<std::byte> out) {
  write_record(call, in, out);
  arrive_and_wait();
  check_equal(call);
  find_views();
  if (!crowded_ && opens_++ % kMeasureEvery == 0) measure_waits();
}

void PeerMemory::measure_waits() {
  using Clock = std::chrono::steady_clock;
  constexpr int kTries = 4;
  constexpr int kWaits = 4;
  Clock::duration least = Clock::duration::max();
  for (int i = 0; i < kTries; ++i) {
    const auto start = Clock::now();
    for (int k = 0; k < kWaits; ++k) arrive_and_wait();
    least = std::min(least, Clock::now() - start);
  }
  far_caches_ = least > kFarWait * kWaits * (options_.size - 1);
}

void PeerMemory::sync() { arrive_and_wait(); }

void PeerMemory::exchange_small(const DirectCall& call, std::span<const std::byte> mine) {
  if (mine.size() > kDirectSmallBytes) {
    throw Error(ExitCode::kUsage, "NQD2102",
                std::to_string(mine.size()) + " bytes of counts do not fit the " +
                    std::to_string(kDirectSmallBytes) + " that a direct call exchanges",
                "use pairwise among so many ranks");
  }
  ++calls_;
  Record& shown = record(options_.rank);
  shown.call = call;
  shown.in = mine.size() > kSlotBytes ? place_of(mine.data(), mine.size()) : BufferPlace{};
  shown.in.bytes = mine.size();
  shown.freed = freed_shared_buffers();
  shown.in_place = shows_small(shown.in) ? 1 : 0;
  if (shown.in_place == 0 && !mine.empty()) {
    std::memcpy(shared(options_.rank).small[calls_ % 2], mine.data(), mine.size());
  }
  arrive_and_wait();
  check_equal(call);
  find_smalls();
}

bool PeerMemory::shows_small(const BufferPlace& place) const {
  // A line that is written in one cache and read in another costs more than a second wait, unless
  // ranks wait for a core.
  return place.bytes > kSlotBytes && options_.spins > 0 && is_open(place);
}

void PeerMemory::find_smalls() {
  small_shown_ = false;
  for (int peer = 0; peer < options_.size; ++peer) {
    const Record& theirs = record(peer);
    const auto bytes = static_cast<std::size_t>(theirs.in.bytes);
    const std::byte* data = shared(peer).small[calls_ % 2];
    if (theirs.in_place != 0) {
      data = reach_in(peer);
      small_shown_ = true;
    }
    smalls_[index(peer)] = {data, bytes};
  }
}

void PeerMemory::close_small() {
  if (small_shown_) sync();
}

const std::byte* PeerMemory::reach_in(int peer) {
  const Record& theirs = record(peer);
  View& view = views_[index(peer)];
  if (view.freed != theirs.freed) view = {};
  view.freed = theirs.freed;
  view.in = reach(peer, theirs.in);
  return view.in;
}

void PeerMemory::find_views() {
  all_open_ = true;
  for (int peer = 0; peer < options_.size; ++peer) {
    const Record& theirs = record(peer);
    View& view = views_[index(peer)];
    reach_in(peer);
    view.out = reach(peer, theirs.out);
    // What is private is private to all, so that the answer is the same on every rank.
    all_open_ = all_open_ && is_open(theirs.in) && is_open(theirs.out);
  }
}

std::span<std::byte> PeerMemory::staging(std::size_t bytes) {
  if (bytes > staging_.size()) {
    staging_ = SharedBuffer(nullptr, MemoryTag::kCommunication, bytes);
  }
  return {staging_.data(), bytes};
}

bool PeerMemory::is_open(const BufferPlace& place) const {
  return place.bytes == 0 || options_.one_process || (can_share_ && place.segment.descriptor >= 0);
}

std::byte* PeerMemory::reach(int rank, const BufferPlace& place) {
  if (options_.one_process || place.segment.pid == own_process()) {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(place.address));
  }
  if (!is_open(place) || place.bytes == 0) return nullptr;
  std::shared_ptr<Segment>& segment = views_[index(rank)].segments[place.segment.nonce];
  if (!segment) segment = attach_shared(place.segment);
  if (segment) return segment->data() + place.offset;
  // A process that dies loses its descriptors first.
  options_.unreadable(rank);
  throw Error(ExitCode::kFault, "NQD4011",
              "a shared buffer of process " + std::to_string(place.segment.pid) + " with " +
                  std::to_string(place.segment.bytes) + " bytes cannot be mapped",
              "free memory, or raise the limits on mappings and open files of this process");
}

std::size_t PeerMemory::in_bytes(int rank) const {
  return static_cast<std::size_t>(record(rank).in.bytes);
}

std::size_t PeerMemory::out_bytes(int rank) const {
  return static_cast<std::size_t>(record(rank).out.bytes);
}

void PeerMemory::read_in(int rank, std::size_t offset, std::span<std::byte> to) {
  read(rank, in(rank), record(rank).in, offset, to);
}

void PeerMemory::read_out(int rank, std::size_t offset, std::span<std::byte> to) {
  read(rank, out(rank), record(rank).out, offset, to);
}

void PeerMemory::read(int rank, const std::byte* open, const BufferPlace& place, std::size_t offset,
                      std::span<std::byte> to) {
  if (to.empty()) return;
  if (open != nullptr) {
    std::memcpy(to.data(), open + offset, to.size());
    return;
  }
  const int code = read_process_memory(place.segment.pid, place.address + offset, to);
  if (code == 0) return;
  // A process that dies loses its memory first.
  if (code == ESRCH || code == EFAULT) options_.unreadable(rank);
  throw Error(ExitCode::kFault, "NQD4011",
              "reading " + std::to_string(to.size()) + " bytes of process " +
                  std::to_string(place.segment.pid) + " failed: " + std::strerror(code),
              "allow process_vm_readv among the ranks (ptrace scope, seccomp), or give the "
              "collective shared buffers");
}

void PeerMemory::probe() {
  if (options_.one_process) {
    can_share_ = can_pull_ = true;
    crowded_ = options_.spins == 0;
    return;
  }
  constexpr std::uint64_t kWord = 0x6e71642d70726f62;
  const std::uint64_t word = kWord;
  SharedBuffer shared(nullptr, MemoryTag::kCommunication, sizeof word);
  *shared.as<std::uint64_t>() = kWord;
  write_record({}, std::as_bytes(std::span(&word, 1)), {shared.data(), shared.size()});
  arrive_and_wait();
  struct Abilities {
    std::uint8_t share = 1;
    std::uint8_t pull = 1;
    std::uint8_t crowded = 0;
  };
  Abilities mine;
  mine.crowded = options_.spins == 0 ? 1 : 0;
  for (int peer = 0; peer < options_.size; ++peer) {
    if (peer == options_.rank) continue;
    const Record& theirs = record(peer);
    const auto segment = Segment::attach(theirs.out.segment);
    if (!segment || *reinterpret_cast<const std::uint64_t*>(segment->data()) != kWord) {
      mine.share = 0;
    }
    std::uint64_t got = 0;
    const auto to = std::as_writable_bytes(std::span(&got, 1));
    if (read_process_memory(theirs.in.segment.pid, theirs.in.address, to) != 0 || got != kWord) {
      mine.pull = 0;
    }
  }
  exchange_small({}, std::as_bytes(std::span(&mine, 1)));
  can_share_ = can_pull_ = true;
  for (int peer = 0; peer < options_.size; ++peer) {
    Abilities theirs;
    std::memcpy(&theirs, small(peer).data(), sizeof theirs);
    can_share_ = can_share_ && theirs.share != 0;
    can_pull_ = can_pull_ && theirs.pull != 0;
    crowded_ = crowded_ || theirs.crowded != 0;
  }
  can_pull_ = can_pull_ && can_share_;
}

}  // namespace nqd::collectives
