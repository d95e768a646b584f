#include "engine/train/traffic_meter.h"

#include <span>

namespace nqd::engine {
namespace {

using collectives::Collective;
using collectives::TrafficCount;

void add(TrafficCount& to, const TrafficCount& count) {
  to.calls += count.calls;
  to.messages += count.messages;
  to.bytes_sent += count.bytes_sent;
}

void subtract(TrafficCount& from, const TrafficCount& count) {
  from.calls -= count.calls;
  from.messages -= count.messages;
  from.bytes_sent -= count.bytes_sent;
}

}  // namespace

const std::vector<SentKey>& sent_keys() {
  static const std::vector<SentKey> keys = [] {
    std::vector<SentKey> all;
    for (const char* group : {"dp", "dp_shard", "dp_replicate", "tp", "pp", "embedding"}) {
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
            Collective::kAllToAll, Collective::kSendRecv}) {
        all.emplace_back(group, name(collective));
      }
    }
    all.emplace_back("control", name(Collective::kAllReduce));
    return all;
  }();
  return keys;
}

SentCounts count_sent(const MeshGroups& groups, const StageRunner& runner) {
  SentCounts sent;
  for (const collectives::Communicator* group : groups.all()) {
    for (const auto& [key, count] : group->traffic()) {
      add(sent[{key.group, std::string(name(key.collective))}], count);
    }
  }
  add(sent[{"pp", std::string(name(Collective::kSendRecv))}], runner.traffic());
  return sent;
}

void TrafficMeter::begin_aside() { before_ = count_sent(groups_, runner_); }

void TrafficMeter::end_aside() {
  for (const auto& [key, count] : count_sent(groups_, runner_)) {
    add(aside_[key], count);
    subtract(aside_[key], before_[key]);
  }
}

SentCounts TrafficMeter::counted() const {
  SentCounts sent = count_sent(groups_, runner_);
  for (const auto& [key, count] : aside_) subtract(sent[key], count);
  return sent;
}

std::vector<TrafficRecord> gather_traffic(collectives::Communicator& world,
                                          const SentCounts& sent) {
  using Counts = std::array<std::uint64_t, 3>;
  std::vector<Counts> mine;
  for (const SentKey& key : sent_keys()) {
    const auto found = sent.find(key);
    const TrafficCount count = found == sent.end() ? TrafficCount{} : found->second;
    mine.push_back({count.calls, count.messages, count.bytes_sent});
  }
  std::vector<Counts> all(mine.size() * static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                   DType::kInt64);
  std::vector<TrafficRecord> records;
  for (std::size_t key = 0; key < mine.size(); ++key) {
    for (int rank = 0; rank < world.size(); ++rank) {
      const Counts& counts = all[static_cast<std::size_t>(rank) * mine.size() + key];
      if (counts[0] == 0) continue;
      records.push_back(
          {rank, sent_keys()[key].first, sent_keys()[key].second, counts[0], counts[1], counts[2]});
    }
  }
  return records;
}

}  // namespace nqd::engine
