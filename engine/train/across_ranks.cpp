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

std::vector<RankIdentity> gather_identities(Communicator& world, const std::string& device) {
  using Text = std::array<char, 120>;
  struct Entry {
    std::int64_t pid = 0;
    Text host{};
    Text device{};
  };
  const auto put = [](Text& to, const std::string& text) {
    std::memcpy(to.data(), text.data(), std::min(text.size(), to.size() - 1));
  };
  Entry mine;
  mine.pid = ::getpid();
  put(mine.host, world.host(world.rank()));
  put(mine.device, device);
  std::vector<Entry> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  std::vector<RankIdentity> ranks;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ranks.push_back(
        {static_cast<int>(i), all[i].host.data(), all[i].pid, all[i].device.data(), ""});
  }
  return ranks;
}

}  // namespace nqd::engine
