#include "engine/train/nccl_mesh.h"

#include <utility>

#include "collectives/nccl/bootstrap.h"

namespace nqd::engine {
namespace {

// Of links between stages, whose sends wait on the device for their receivers: together with the
// groups' they must leave multiprocessors to what computes, or nothing would ever be received.
constexpr int kBlocksOfLink = 8;

}  // namespace

std::string nccl_objection(const planner::Config& config) {
  if (config.numerics.mode == collectives::Numerics::kCanonical) {
    return "its sums are not those of numerics: canonical";
  }
  return {};
}

NcclMesh::NcclMesh(collectives::Communicator& world, const planner::Config& config,
                   collectives::DeviceApi& api, collectives::NcclApi& nccl,
                   collectives::NcclOptions options, Device& device, MeshGroups& groups)
    : sessions_(std::make_shared<collectives::NcclSessions>(nccl)) {
  options.stream_ordered = true;
  options.sessions = sessions_;
  world_ = collectives::open_nccl(world, api, nccl, options);
  collectives::NcclOptions of_links = options;
  of_links.max_blocks = kBlocksOfLink;
  join_groups(groups, config, [&](int color, int key, const std::string& name) {
    return world_->split(color, key, name, name == "pp" ? of_links : options);
  });
  groups.backend = world_->backend();
  device.attach({[sessions = sessions_] { sessions->look(); },
                 [sessions = sessions_](std::size_t bytes) { return sessions->allocate(bytes); },
                 [sessions = sessions_](std::byte* memory) { sessions->release(memory); }});
}

NcclMesh::Stood NcclMesh::take_stood() {
  Stood stood;
  for (const char* group : {"dp", "dp_shard", "dp_replicate", "embedding"}) {
    stood.exposed_s += sessions_->take_stood_s(group);
  }
  stood.all_s = stood.exposed_s;
  for (const char* group : {"tp", "pp"}) stood.all_s += sessions_->take_stood_s(group);
  return stood;
}

}  // namespace nqd::engine
