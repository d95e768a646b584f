#include "collectives/bench/operation.h"

#include <algorithm>
#include <string>

namespace nqd::collectives {

Block::Block(std::size_t bytes, bool registered) {
  if (registered) {
    shared_ = SharedBuffer(nullptr, MemoryTag::kCommunication, bytes);
  } else {
    private_ = Buffer(nullptr, MemoryTag::kCommunication, bytes);
  }
}

std::span<std::byte> Block::bytes() {
  if (shared_.size() > 0) return {shared_.data(), shared_.size()};
  return {private_.data(), private_.size()};
}

std::span<const std::byte> Block::bytes() const {
  if (shared_.size() > 0) return {shared_.data(), shared_.size()};
  return {private_.data(), private_.size()};
}

Operation::Operation(Communicator& world, const BenchOptions& options, std::size_t max_bytes,
                     BenchDevice* device)
    : world_(world),
      device_(device),
      collective_(options.collective),
      type_(options.dtype),
      op_(options.op),
      in_place_(options.in_place || options.collective == Collective::kBroadcast),
      root_(options.root),
      pair_(options.pair),
      cold_bytes_(options.cold ? 2 * options.cache_bytes : 0),
      pattern_(options.dtype, options.op, static_cast<std::size_t>(world.size())) {
  const std::size_t vectors = in_place_ ? 1 : 2;
  std::size_t bytes = stride(max_bytes);
  if (cold_bytes_ > 0) bytes = cold_bytes_ / vectors + 2 * bytes;
  const bool shared = options.registered && device_ == nullptr;
  full_ = Block(bytes, shared);
  if (!in_place_) second_ = Block(bytes, shared);
  if (device_ != nullptr) device_->allocate(bytes, in_place_ ? 0 : bytes, options.registered);
}

std::size_t Operation::stride(std::size_t bytes) const {
  constexpr std::size_t kLine = 64;
  // An all_to_all receives n parts of one rank, which may be longer than the mean.
  const std::size_t rounding = static_cast<std::size_t>(world_.size()) * size_bytes(type_);
  return (bytes + rounding + kLine - 1) / kLine * kLine;
}

void Operation::resize(std::size_t bytes) {
  bytes_ = bytes;
  const std::size_t vectors = in_place_ ? 1 : 2;
  copies_ = cold_bytes_ / (vectors * stride(bytes)) + 1;
}

Operation::Part Operation::part(std::size_t rank) const {
  const Chunk chunk =
      chunk_of(bytes_ / size_bytes(type_), static_cast<std::size_t>(world_.size()), rank);
  return {chunk.begin, chunk.count * size_bytes(type_)};
}

Operation::Part Operation::in_part() const {
  const bool is_root = world_.rank() == root_;
  switch (collective_) {
    case Collective::kAllGather:
    case Collective::kGather:
      return part(static_cast<std::size_t>(world_.rank()));
    case Collective::kScatter:
      return {0, is_root ? bytes_ : 0};
    case Collective::kSendRecv:
      return {0, right() >= 0 ? bytes_ : 0};
    default:
      return {0, bytes_};
  }
}

Operation::Part Operation::out_part() const {
  const bool is_root = world_.rank() == root_;
  const Part own = part(static_cast<std::size_t>(world_.rank()));
  switch (collective_) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return own;
    case Collective::kReduce:
    case Collective::kGather:
      return {0, is_root ? bytes_ : 0};
    case Collective::kAllToAll:
      return {0, static_cast<std::size_t>(world_.size()) * own.bytes};
    case Collective::kSendRecv:
      return {0, left() >= 0 ? bytes_ : 0};
    default:
      return {0, bytes_};
  }
}

std::span<std::byte> Operation::in() {
  return full_.bytes().subspan(offset_ + in_part().first * size_bytes(type_), in_part().bytes);
}

std::span<std::byte> Operation::out() {
  return (in_place_ ? full_ : second_)
      .bytes()
      .subspan(offset_ + out_part().first * size_bytes(type_), out_part().bytes);
}

int Operation::right() const {
  if (!pair_) return (world_.rank() + 1) % world_.size();
  const auto [first, second] = *pair_;
  if (world_.rank() == first) return second;
  return world_.rank() == second ? first : -1;
}

int Operation::left() const {
  return pair_ ? right() : (world_.rank() + world_.size() - 1) % world_.size();
}

void Operation::exchange(Algorithm algorithm) {
  if (!pair_) return world_.send_receive(in(), right(), out(), left(), algorithm);
  if (right() < 0) return;
  const bool begins = world_.rank() == pair_->front();
  if (begins) world_.send_receive(in(), right(), {}, -1, algorithm);
  world_.send_receive({}, -1, out(), left(), algorithm);
  if (!begins) world_.send_receive(in(), right(), {}, -1, algorithm);
}

void Operation::fill() {
  // The right answer of an earlier call must not stand in for a call that writes nothing.
  constexpr std::byte kPoison{0xA5};
  offset_ = next_copy_ = 0;
  std::ranges::fill(out(), kPoison);
  pattern_.fill_input(in(), static_cast<std::size_t>(world_.rank()), in_part().first);
  const std::size_t step = stride(bytes_);
  for (std::size_t copy = 1; copy < copies_; ++copy) {
    for (Block* block : {&full_, &second_}) {
      if (block->bytes().empty()) continue;
      const auto first = block->bytes().first(step);
      std::ranges::copy(first, block->bytes().subspan(copy * step).begin());
    }
  }
  if (device_ == nullptr) return;
  const std::size_t used = copies_ * step;
  device_->copy(device_->full().first(used), full_.bytes().first(used));
  if (!in_place_) device_->copy(device_->second().first(used), second_.bytes().first(used));
}

std::span<std::byte> Operation::on_device(std::span<std::byte> data) {
  if (data.empty()) return {};
  const auto within = [&](Block& block, std::span<std::byte> twin) {
    return twin.subspan(static_cast<std::size_t>(data.data() - block.bytes().data()), data.size());
  };
  const std::byte* const begin = full_.bytes().data();
  const bool in_full = data.data() >= begin && data.data() < begin + full_.bytes().size();
  return in_full ? within(full_, device_->full()) : within(second_, device_->second());
}

BenchSteps Operation::steps() {
  if (collective_ == Collective::kBarrier) return {BenchStep{}};
  const std::span<std::byte> given = on_device(in());
  const std::span<std::byte> taken = on_device(out());
  if (collective_ != Collective::kSendRecv) {
    const bool broadcasts = collective_ == Collective::kBroadcast;
    CollectiveCall one{collective_, broadcasts ? std::span<std::byte>{} : given,
                       taken,       broadcasts ? DType::kUInt8 : type_,
                       op_,         root_};
    return {BenchStep{one}};
  }
  const auto message = [&](int to, int from) {
    BenchStep step;
    step.call.in = to < 0 ? std::span<std::byte>{} : given;
    step.call.out = from < 0 ? std::span<std::byte>{} : taken;
    step.is_message = true;
    step.to = to;
    step.from = from;
    return step;
  };
  if (!pair_) return {message(right(), left())};
  if (right() < 0) return {};
  const bool begins = world_.rank() == pair_->front();
  if (begins) return {message(right(), -1), message(-1, left())};
  return {message(-1, left()), message(right(), -1)};
}

void Operation::take_next_copy() {
  offset_ = next_copy_ * stride(bytes_);
  next_copy_ = next_copy_ + 1 < copies_ ? next_copy_ + 1 : 0;
}

std::vector<double> Operation::time(std::size_t calls) {
  return device_->time(calls, [this] {
    take_next_copy();
    return steps();
  });
}

std::optional<double> Operation::estimate_s() { return device_->estimate_s(steps()); }

void Operation::call(Algorithm algorithm) {
  take_next_copy();
  if (device_ != nullptr) return device_->run(steps());
  switch (collective_) {
    case Collective::kAllReduce:
      return world_.all_reduce(in(), out(), type_, op_, algorithm);
    case Collective::kAllGather:
      return world_.all_gather(in(), out(), type_, algorithm);
    case Collective::kReduceScatter:
      return world_.reduce_scatter(in(), out(), type_, op_, algorithm);
    case Collective::kBroadcast:
      return world_.broadcast(out(), root_, algorithm);
    case Collective::kReduce:
      return world_.reduce(in(), out(), type_, op_, root_, algorithm);
    case Collective::kGather:
      return world_.gather(in(), out(), type_, root_, algorithm);
    case Collective::kScatter:
      return world_.scatter(in(), out(), type_, root_, algorithm);
    case Collective::kAllToAll:
      return world_.all_to_all(in(), out(), type_, algorithm);
    case Collective::kSendRecv:
      return exchange(algorithm);
    case Collective::kBarrier:
      return world_.barrier();
  }
}

std::uint64_t Operation::count_wrong() {
  const Part mine = out_part();
  const std::span<std::byte> result = out();
  if (device_ != nullptr) device_->copy(result, on_device(result));
  switch (collective_) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce:
      return pattern_.count_wrong(result, mine.first);
    case Collective::kBroadcast:
    case Collective::kScatter:
      return pattern_.count_unlike_input(result, static_cast<std::size_t>(root_), mine.first);
    case Collective::kAllToAll:
      return count_wrong_rows(result);
    case Collective::kSendRecv:
      return left() < 0 ? 0
                        : pattern_.count_unlike_input(result, static_cast<std::size_t>(left()), 0);
    default:
      return count_wrong_parts(result);
  }
}

std::uint64_t Operation::count_wrong_parts(std::span<const std::byte> result) const {
  std::uint64_t wrong = 0;
  if (result.empty()) return 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world_.size()); ++rank) {
    const Part theirs = part(rank);
    wrong += pattern_.count_unlike_input(
        result.subspan(theirs.first * size_bytes(type_), theirs.bytes), rank, theirs.first);
  }
  return wrong;
}

std::uint64_t Operation::count_wrong_rows(std::span<const std::byte> result) const {
  const Part own = part(static_cast<std::size_t>(world_.rank()));
  std::uint64_t wrong = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world_.size()); ++rank) {
    wrong +=
        pattern_.count_unlike_input(result.subspan(rank * own.bytes, own.bytes), rank, own.first);
  }
  return wrong;
}

}  // namespace nqd::collectives
