// What a rank has sent, by group and collective, over all communicators of its mesh.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/parallel/pipeline/stage_runner.h"
#include "engine/records.h"

namespace nqd::engine {

using SentKey = std::pair<std::string, std::string>;  // group, collective
using SentCounts = std::map<SentKey, collectives::TrafficCount>;

// Every group and collective that a mesh may use, in a fixed order.
const std::vector<SentKey>& sent_keys();

// Waits for what is under way.
SentCounts count_sent(const MeshGroups& groups, const StageRunner& runner);

// Keeps what was sent between pairs of begin and end apart from the rest.
class TrafficMeter {
 public:
  TrafficMeter(const MeshGroups& groups, const StageRunner& runner)
      : groups_(groups), runner_(runner) {}
  void begin_aside();
  void end_aside();
  // All that was sent but for what was set aside.
  SentCounts counted() const;

 private:
  const MeshGroups& groups_;
  const StageRunner& runner_;
  SentCounts before_;
  SentCounts aside_;
};

// Collective over `world`. The counts of all ranks.
std::vector<TrafficRecord> gather_traffic(collectives::Communicator& world, const SentCounts& sent);

}  // namespace nqd::engine
