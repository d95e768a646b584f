// The words of the collectives layer, without any backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nqd::collectives {

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kBarrier,
  kSendRecv,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
};

enum class ReduceOp : std::uint8_t { kSum, kAvg, kMin, kMax, kProd };

// kAuto lets the implementation choose; kLibrary is the backend's own collective (MPI_Allreduce),
// whose traffic nqd cannot count. collectives/cost.h prices all others and says which nqd runs.
enum class Algorithm : std::uint8_t {
  kAuto,
  kRing,
  kTree,  // binomial
  kLibrary,
  kDoubleBinaryTree,
  kRecursiveDoubling,
  kHalvingDoubling,
  kHierarchical,
  kNvls,  // reduction and multicast inside an NVLink switch
  kPairwise,
  kBruck,
  kDirect,  // ranks of one host read and write each other's buffers in place
  kLinear,  // the root exchanges with every other rank
};

std::string_view name(Collective collective);  // "all_reduce", …
std::string_view name(ReduceOp op);            // "sum", …
std::string_view name(Algorithm algorithm);    // "auto", "ring", "double_binary_tree", …
std::optional<Collective> parse_collective(std::string_view text);
std::optional<ReduceOp> parse_reduce_op(std::string_view text);
std::optional<Algorithm> parse_algorithm(std::string_view text);

// The part of `count` elements that index `i` of `n` owns: the first `count % n` parts are one
// element longer. Every ring algorithm, its cost function and every shard use this one partition.
struct Chunk {
  std::size_t begin = 0;
  std::size_t count = 0;
};
constexpr Chunk chunk_of(std::size_t count, std::size_t n, std::size_t i) {
  const std::size_t base = count / n;
  const std::size_t longer = count % n;
  return {i * base + (i < longer ? i : longer), base + (i < longer ? 1 : 0)};
}

// Vectors up to this size pass through slots in a direct collective.
inline constexpr std::size_t kDirectSmallBytes = 8192;

// As chunk_of, but parts begin on cache lines of 64 bytes (counted from the vector's begin), so
// that no two ranks write to one line.
constexpr Chunk line_chunk_of(std::size_t count, std::size_t element_bytes, std::size_t n,
                              std::size_t i) {
  constexpr std::size_t kLine = 64;
  const std::size_t per_line = kLine / element_bytes;
  const Chunk lines = chunk_of((count + per_line - 1) / per_line, n, i);
  const std::size_t begin = lines.begin * per_line < count ? lines.begin * per_line : count;
  const std::size_t end = (lines.begin + lines.count) * per_line;
  return {begin, (end < count ? end : count) - begin};
}

}  // namespace nqd::collectives
