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

Operation::Operation(Communicator& world, const BenchOptions& options, std::size_t max_bytes)
    : world_(world),
      collective_(options.collective),
      type_(options.dtype),
      op_(options.op),
      in_place_(options.in_place || options.collective == Collective::kBroadcast),
      pattern_(options.dtype, options.op, static_cast<std::size_t>(world.size())),
      full_(max_bytes, options.registered) {
  // An all_to_all receives n parts of one rank, which may be longer than the mean.
  const std::size_t rounding = static_cast<std::size_t>(world.size()) * size_bytes(type_);
  if (!in_place_) second_ = Block(max_bytes + rounding, options.registered);
}

Operation::Part Operation::part(std::size_t rank) const {
  const Chunk chunk =
      chunk_of(bytes_ / size_bytes(type_), static_cast<std::size_t>(world_.size()), rank);
  return {chunk.begin, chunk.count * size_bytes(type_)};
}

Operation::Part Operation::in_part() const {
  const bool is_root = world_.rank() == kRoot;
  switch (collective_) {
    case Collective::kAllGather:
    case Collective::kGather:
      return part(static_cast<std::size_t>(world_.rank()));
    case Collective::kScatter:
      return {0, is_root ? bytes_ : 0};
    default:
      return {0, bytes_};
  }
}

Operation::Part Operation::out_part() const {
  const bool is_root = world_.rank() == kRoot;
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
    default:
      return {0, bytes_};
  }
}

std::span<std::byte> Operation::in() {
  return full_.bytes().subspan(in_part().first * size_bytes(type_), in_part().bytes);
}

std::span<std::byte> Operation::out() {
  return (in_place_ ? full_ : second_)
      .bytes()
      .subspan(out_part().first * size_bytes(type_), out_part().bytes);
}

void Operation::fill() {
  // The right answer of an earlier call must not stand in for a call that writes nothing.
  constexpr std::byte kPoison{0xA5};
  std::ranges::fill(out(), kPoison);
  pattern_.fill_input(in(), static_cast<std::size_t>(world_.rank()), in_part().first);
}

void Operation::call(Algorithm algorithm) {
  switch (collective_) {
    case Collective::kAllReduce:
      return world_.all_reduce(in(), out(), type_, op_, algorithm);
    case Collective::kAllGather:
      return world_.all_gather(in(), out(), type_, algorithm);
    case Collective::kReduceScatter:
      return world_.reduce_scatter(in(), out(), type_, op_, algorithm);
    case Collective::kBroadcast:
      return world_.broadcast(out(), kRoot, algorithm);
    case Collective::kReduce:
      return world_.reduce(in(), out(), type_, op_, kRoot, algorithm);
    case Collective::kGather:
      return world_.gather(in(), out(), type_, kRoot, algorithm);
    case Collective::kScatter:
      return world_.scatter(in(), out(), type_, kRoot, algorithm);
    case Collective::kAllToAll:
      return world_.all_to_all(in(), out(), type_, algorithm);
    case Collective::kBarrier:
      return world_.barrier();
    case Collective::kSendRecv:
      break;
  }
  throw Error(ExitCode::kUsage, "NQD2104", "bench does not sweep " + std::string(name(collective_)),
              "use all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter or "
              "all_to_all");
}

std::uint64_t Operation::count_wrong() const {
  const std::size_t element = size_bytes(type_);
  const Part mine = out_part();
  const auto result =
      (in_place_ ? full_ : second_).bytes().subspan(mine.first * element, mine.bytes);
  switch (collective_) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce:
      return pattern_.count_wrong(result, mine.first);
    case Collective::kBroadcast:
    case Collective::kScatter:
      return pattern_.count_unlike_input(result, kRoot, mine.first);
    case Collective::kAllToAll:
      return count_wrong_rows(result);
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
