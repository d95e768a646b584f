// A mesh whose messages go over NCCL, ordered by streams with the device that computes.
#pragma once

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "collectives/nccl/communicator.h"
#include "collectives/nccl/sessions.h"
#include "engine/device/device.h"
#include "engine/parallel/mesh_groups.h"
#include "planner/spec.h"

namespace nqd::engine {

class NcclMesh {
 public:
  // Collective over `world`, whose groups `groups` are; on every rank `device` computes, behind
  // options.compute if that is given, and lies on options.device. All must outlive it but the
  // device, which must be gone before the groups are. Every group but `control` becomes a
  // communicator of NCCL, which splits one world of its own; the device gets memory that they know,
  // and looks at them in its waits. Throws on all ranks alike as collectives::open_nccl does, and
  // then nothing has changed.
  NcclMesh(collectives::Communicator& world, const planner::Config& config,
           collectives::DeviceApi& api, collectives::NcclApi& nccl,
           collectives::NcclOptions options, Device& device, MeshGroups& groups);

  // What the device found in its waits (NcclSessions).
  const std::shared_ptr<collectives::NcclSessions>& sessions() const { return sessions_; }
  // Aborts every communicator: to be called when a failure ends this rank, before its device goes.
  void abandon() noexcept { sessions_->abandon(); }

  // Seconds of the device between two calls, of what it has passed: how long its compute stream
  // stood still for gradients and weights of other ranks, and for messages of any kind.
  struct Stood {
    double exposed_s = 0;  // dp, dp_shard, dp_replicate, embedding
    double all_s = 0;      // and tp, pp
  };
  Stood take_stood();

 private:
  std::shared_ptr<collectives::NcclSessions> sessions_;
  std::unique_ptr<collectives::NcclCommunicator> world_;
};

// Why ranks of `config` cannot sum over NCCL; empty where they can.
std::string nccl_objection(const planner::Config& config);

}  // namespace nqd::engine
