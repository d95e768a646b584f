#include "collectives/call_check.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/shared/peer_memory.h"

namespace nqd::collectives {
namespace {

// What one rank says of its call. For gather and scatter `call` has no bytes.
struct Statement {
  DirectCall call;
  Algorithm algorithm = Algorithm::kAuto;
  bool is_split = false;
  std::uint64_t sequence = 0;
  std::uint64_t full_bytes = 0;  // gather and scatter: at the root
  std::uint64_t part_bytes = 0;  // gather and scatter

  bool same_call(const Statement& other) const {
    return call == other.call && algorithm == other.algorithm && is_split == other.is_split &&
           sequence == other.sequence;
  }
};

bool has_full_vector_at_root(Collective collective) {
  return collective == Collective::kGather || collective == Collective::kScatter;
}

Statement statement_of(const CollectiveCall& call, Algorithm algorithm, std::uint64_t sequence) {
  Statement mine;
  mine.call = {call.collective, call.type, call.op, call.root, payload_bytes(call).value_or(0)};
  mine.algorithm = algorithm;
  mine.sequence = sequence;
  if (has_full_vector_at_root(call.collective)) {
    const bool gathers = call.collective == Collective::kGather;
    mine.full_bytes = gathers ? call.out.size() : call.in.size();
    mine.part_bytes = gathers ? call.in.size() : call.out.size();
  }
  return mine;
}

std::string describe(const Statement& statement) {
  if (statement.is_split) return "split";
  DirectCall call = statement.call;
  if (has_full_vector_at_root(call.collective)) call.bytes = statement.part_bytes;
  return "#" + std::to_string(statement.sequence) + ": " + describe(call) +
         (call.collective == Collective::kBarrier
              ? ""
              : " by " + std::string(name(statement.algorithm)));
}

std::string describe(const Transport& transport, std::size_t rank) {
  return "rank " + std::to_string(transport.world_rank(static_cast<int>(rank))) + " on host " +
         transport.host(static_cast<int>(rank));
}

// A rank whose call most ranks make; among equals the first.
std::size_t most_common(const std::vector<Statement>& all) {
  std::size_t best = 0;
  std::ptrdiff_t best_count = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto count = std::count_if(
        all.begin(), all.end(), [&](const Statement& other) { return other.same_call(all[rank]); });
    if (count > best_count) best = rank;
    best_count = std::max(best_count, count);
  }
  return best;
}

[[noreturn]] void throw_different(const Transport& transport, std::size_t rank,
                                  const std::string& calls, std::size_t other,
                                  const std::string& other_calls) {
  throw Error(ExitCode::kFault, "NQD4005",
              "ranks of group " + transport.group() +
                  " make different calls: " + describe(transport, rank) + " calls " + calls + "; " +
                  describe(transport, other) + " calls " + other_calls,
              "every rank must make the same calls in the same order, with the same count, type, "
              "operator, root and algorithm");
}

void compare(const Transport& transport, const std::vector<Statement>& all) {
  const std::size_t usual = most_common(all);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].same_call(all[usual])) continue;
    throw_different(transport, rank, describe(all[rank]), usual, describe(all[usual]));
  }
  const DirectCall& call = all[usual].call;
  if (!has_full_vector_at_root(call.collective)) return;
  const auto root = static_cast<std::size_t>(call.root);
  const std::size_t element = size_bytes(call.type);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Chunk part = chunk_of(all[root].full_bytes / element, all.size(), rank);
    if (all[rank].part_bytes == part.count * element) continue;
    throw_different(transport, rank, describe(all[rank]), root,
                    "with a full vector of " + std::to_string(all[root].full_bytes) +
                        " bytes, of which that rank's part is " +
                        std::to_string(part.count * element));
  }
}

void exchange(Transport& transport, const Statement& mine) {
  const auto bytes = transport.gather_control(std::as_bytes(std::span(&mine, 1)));
  std::vector<Statement> all(static_cast<std::size_t>(transport.size()));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  compare(transport, all);
}

}  // namespace

void check_same_call(Transport& transport, const CollectiveCall& call, Algorithm algorithm) {
  exchange(transport, statement_of(call, algorithm, transport.stage().sequence));
}

void check_same_split(Transport& transport) {
  Statement mine;
  mine.is_split = true;
  exchange(transport, mine);
}

}  // namespace nqd::collectives
