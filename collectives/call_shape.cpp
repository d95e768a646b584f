#include "collectives/call_shape.h"

#include "collectives/reduce.h"

namespace nqd::collectives {
namespace {

void check_shard(std::size_t shard_bytes, std::size_t total_bytes, DType type, int n, int rank) {
  const std::size_t element = size_bytes(type);
  const auto chunk =
      chunk_of(total_bytes / element, static_cast<std::size_t>(n), static_cast<std::size_t>(rank));
  if (total_bytes % element == 0 && shard_bytes == chunk.count * element) return;
  throw Error(ExitCode::kUsage, "NQD2103",
              "rank " + std::to_string(rank) + " of " + std::to_string(n) + " owns " +
                  std::to_string(chunk.count * element) + " of " + std::to_string(total_bytes) +
                  " bytes, but gave a span of " + std::to_string(shard_bytes),
              "size the shard with chunk_of(total, ranks, rank)");
}

void check_counts(std::span<const std::size_t> counts, std::size_t bytes, DType type,
                  std::size_t n) {
  std::size_t elements = 0;
  for (const std::size_t count : counts) elements += count;
  if (counts.size() == n && elements * size_bytes(type) == bytes) return;
  throw Error(ExitCode::kUsage, "NQD2103",
              std::to_string(counts.size()) + " counts of together " + std::to_string(elements) +
                  " elements were given for " + std::to_string(n) + " ranks and " +
                  std::to_string(bytes) + " bytes",
              "give one count a rank, which add up to the buffer");
}

}  // namespace

void check_rank(int rank, int size, const std::string& group) {
  if (rank >= 0 && rank < size) return;
  throw Error(ExitCode::kUsage, "NQD2103",
              "rank " + std::to_string(rank) + " is outside group " + group + " of " +
                  std::to_string(size) + " ranks",
              "ranks of a group count from 0");
}

void check_call(const CollectiveCall& call, int size, int rank, const std::string& group) {
  const auto n = static_cast<std::size_t>(size);
  const auto shard = [&](std::size_t part, std::size_t total) {
    check_shard(part, total, call.type, size, rank);
  };
  switch (call.collective) {
    case Collective::kAllReduce:
      return check_reduction(call.in.size(), call.out.size(), call.type, call.op);
    case Collective::kAllGather:
      return shard(call.in.size(), call.out.size());
    case Collective::kReduceScatter:
      check_reduction(call.in.size(), call.in.size(), call.type, call.op);
      return shard(call.out.size(), call.in.size());
    case Collective::kReduce:
      check_rank(call.root, size, group);
      return check_reduction(call.in.size(), rank == call.root ? call.out.size() : call.in.size(),
                             call.type, call.op);
    case Collective::kGather:
      check_rank(call.root, size, group);
      if (rank == call.root) shard(call.in.size(), call.out.size());
      return;
    case Collective::kScatter:
      check_rank(call.root, size, group);
      if (rank == call.root) shard(call.out.size(), call.in.size());
      return;
    case Collective::kAllToAll:
      if (call.has_counts()) {
        check_counts(call.in_counts, call.in.size(), call.type, n);
        return check_counts(call.out_counts, call.out.size(), call.type, n);
      }
      shard(call.out.size() / n, call.in.size());
      return shard((call.out.size() + n - 1) / n, call.in.size());
    case Collective::kBroadcast:
      return check_rank(call.root, size, group);
    case Collective::kBarrier:
      return;
    case Collective::kSendRecv:
      throw Error(ExitCode::kUsage, "NQD2102", "a message is no collective call",
                  "use send_receive or send_async");
  }
}

}  // namespace nqd::collectives
