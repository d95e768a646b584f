#include "engine/train/across_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace nqd::engine {

using collectives::Communicator;

double sum_over(Communicator& group, double value) {
  const std::span<double> data(&value, 1);
  group.all_reduce(std::as_bytes(data), std::as_writable_bytes(data), DType::kFloat64,
                   collectives::ReduceOp::kSum, collectives::Algorithm::kRing);
  return value;
}

std::string of_rank_0(Communicator& world, const std::string& text) {
  std::array<char, 1024> bytes{};
  if (world.rank() == 0)
    std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size() - 1));
  world.broadcast(std::as_writable_bytes(std::span(bytes)), 0);
  return bytes.data();
}

std::vector<RankIdentity> gather_identities(Communicator& world) {
  struct Entry {
    std::int64_t pid = 0;
    std::array<char, 120> host{};
  };
  Entry mine;
  mine.pid = ::getpid();
  const std::string& host = world.host(world.rank());
  std::memcpy(mine.host.data(), host.data(), std::min(host.size(), mine.host.size() - 1));
  std::vector<Entry> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  std::vector<RankIdentity> ranks;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ranks.push_back({static_cast<int>(i), all[i].host.data(), all[i].pid, "cpu", ""});
  }
  return ranks;
}

}  // namespace nqd::engine
