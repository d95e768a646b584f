#include "collectives/liveness/board.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

namespace nqd::collectives {
namespace {

constexpr std::size_t kMaxFaultRanks = 32;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const std::size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

// A Stage as whole words, each atomic, under a version that is odd while a writer is at work.
struct SharedStage {
  static constexpr std::size_t kGroupWords = 4;
  std::atomic<std::uint32_t> version{0};
  std::array<std::atomic<std::uint64_t>, kGroupWords> group{};
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::uint32_t> step{0};
  std::atomic<std::uint32_t> call{0};  // collective · 2 + active
};

// On cache lines of its own: a rank publishes in every call.
struct alignas(64) SharedSlot {
  std::atomic<std::int64_t> pid{0};
  std::atomic<std::int32_t> world_rank{-1};
  std::atomic<RankState> state{RankState::kRunning};
  std::atomic<std::uint64_t> heartbeat{0};
  CpuShare cpus;  // written before pid, then constant
  SharedStage stage;
};

struct SharedFault {
  std::atomic<std::uint32_t> claimed{0};
  std::atomic<std::uint32_t> ready{0};
  // Written between the two, then constant.
  Fault::Kind kind{};
  std::uint32_t rank_count = 0;
  std::int32_t ranks[kMaxFaultRanks]{};
  char host[256]{};
  char message[2048]{};
};

}  // namespace

struct alignas(64) Board::Layout {
  std::uint32_t slots = 0;
  SharedFault fault;
  // Then the slots, and the counts of what was heard, by world rank.

  using Count = std::atomic<std::uint64_t>;
  static std::size_t bytes(std::uint32_t slots, std::uint32_t world_ranks) {
    return sizeof(Layout) + slots * sizeof(SharedSlot) + world_ranks * sizeof(Count);
  }
  SharedSlot& slot(std::uint32_t index) {
    return std::launder(reinterpret_cast<SharedSlot*>(this + 1))[index];
  }
  Count& heard(int world_rank) {
    auto* const end = reinterpret_cast<std::byte*>(this + 1) + slots * sizeof(SharedSlot);
    return std::launder(reinterpret_cast<Count*>(end))[world_rank];
  }
};

std::unique_ptr<Board> Board::create(std::uint32_t slots, std::uint32_t world_ranks) {
  auto segment = Segment::create(Layout::bytes(slots, world_ranks));
  auto* const layout = new (segment->data()) Layout();
  layout->slots = slots;
  auto* const first = reinterpret_cast<SharedSlot*>(layout + 1);
  for (std::uint32_t i = 0; i < slots; ++i) new (first + i) SharedSlot();
  auto* const counts = reinterpret_cast<Layout::Count*>(first + slots);
  for (std::uint32_t i = 0; i < world_ranks; ++i) new (counts + i) Layout::Count();
  return std::unique_ptr<Board>(new Board(std::move(segment), layout));
}

std::unique_ptr<Board> Board::attach(const Address& address) {
  auto segment = Segment::attach(address);
  if (!segment) return nullptr;
  auto* const layout = std::launder(reinterpret_cast<Layout*>(segment->data()));
  return std::unique_ptr<Board>(new Board(std::move(segment), layout));
}

std::uint32_t Board::slots() const { return layout_->slots; }

void Board::enter(std::uint32_t slot, int world_rank) {
  layout_->slot(slot).world_rank = world_rank;
  layout_->slot(slot).cpus = own_cpu_share();
  layout_->slot(slot).pid = ::getpid();
}

void Board::beat(std::uint32_t slot) { ++layout_->slot(slot).heartbeat; }

void Board::set_state(std::uint32_t slot, RankState state) { layout_->slot(slot).state = state; }

void Board::set_stage(std::uint32_t slot, const Stage& stage) {
  std::array<std::uint64_t, SharedStage::kGroupWords> words{};
  std::memcpy(words.data(), stage.group.data(), std::min(stage.group.size(), sizeof words - 1));
  SharedStage& shared = layout_->slot(slot).stage;
  const std::lock_guard lock(stage_mutex_);
  // Every store after the first is a release: none is seen before the odd version, and the even one
  // is not seen before them.
  const std::uint32_t version = shared.version.load(std::memory_order_relaxed);
  shared.version.store(version + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < words.size(); ++i) {
    shared.group[i].store(words[i], std::memory_order_release);
  }
  shared.sequence.store(stage.sequence, std::memory_order_release);
  shared.step.store(stage.step, std::memory_order_release);
  shared.call.store(static_cast<std::uint32_t>(stage.collective) * 2 + (stage.active ? 1 : 0),
                    std::memory_order_release);
  shared.version.store(version + 2, std::memory_order_release);
}

std::int64_t Board::pid(std::uint32_t slot) const { return layout_->slot(slot).pid; }
int Board::world_rank(std::uint32_t slot) const { return layout_->slot(slot).world_rank; }
std::uint64_t Board::heartbeat(std::uint32_t slot) const { return layout_->slot(slot).heartbeat; }
RankState Board::state(std::uint32_t slot) const { return layout_->slot(slot).state; }

Stage Board::stage(std::uint32_t slot) const {
  SharedStage& shared = layout_->slot(slot).stage;
  std::array<std::uint64_t, SharedStage::kGroupWords> words{};
  Stage stage;
  // A process that died while it wrote leaves the version odd: after some tries the text may mix
  // two stages, which a report survives.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint32_t before = shared.version;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = shared.group[i];
    stage.sequence = shared.sequence;
    stage.step = shared.step;
    const std::uint32_t call = shared.call;
    stage.collective = static_cast<Collective>(call / 2);
    stage.active = call % 2 != 0;
    if (before % 2 == 0 && before == shared.version) break;
  }
  char text[sizeof words];
  std::memcpy(text, words.data(), sizeof text);
  stage.group.assign(text, ::strnlen(text, sizeof text));
  return stage;
}

std::vector<CpuShare> Board::cpu_shares() const {
  std::vector<CpuShare> shares;
  for (std::uint32_t slot = 0; slot < slots(); ++slot) shares.push_back(layout_->slot(slot).cpus);
  return shares;
}

void Board::hear(int world_rank) { ++layout_->heard(world_rank); }
std::uint64_t Board::heard(int world_rank) const { return layout_->heard(world_rank); }

void Board::record_fault(const Fault& fault) {
  SharedFault& shared = layout_->fault;
  if (shared.claimed.exchange(1) != 0) return;
  shared.kind = fault.kind;
  shared.rank_count = static_cast<std::uint32_t>(std::min(fault.ranks.size(), kMaxFaultRanks));
  std::copy_n(fault.ranks.begin(), shared.rank_count, shared.ranks);
  copy_text(shared.host, fault.host);
  copy_text(shared.message, fault.message);
  shared.ready = 1;
}

bool Board::has_fault() const { return layout_->fault.ready != 0; }

std::optional<Fault> Board::fault() const {
  if (!has_fault()) return std::nullopt;
  const SharedFault& shared = layout_->fault;
  return Fault{
      shared.kind, {shared.ranks, shared.ranks + shared.rank_count}, shared.host, shared.message};
}

}  // namespace nqd::collectives
