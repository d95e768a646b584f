#include "tests/collectives/nccl/emulated_nccl.h"

#include <cstring>

#include "tests/collectives/nccl/emulated_device.h"
#include "tests/collectives/nccl/emulated_group.h"

// What a handle of the emulation points to.
struct ncclComm {
  std::shared_ptr<nqd::collectives::emulated::Group> group;  // null: a split has not resolved yet
  int rank = 0;
  bool blocking = false;
  std::shared_ptr<std::uint64_t> sequence = std::make_shared<std::uint64_t>(0);
  std::uint64_t splits = 0;
  // Of a split: where it comes from; null otherwise.
  std::shared_ptr<nqd::collectives::emulated::Group> parent;
  std::shared_ptr<nqd::collectives::emulated::Split> split;
  int rank_in_parent = 0;
  int color = 0;
  // Launched when errors have been asked for twice.
  std::vector<std::pair<nqd::collectives::emulated::Operation, CUstream_st*>> waiting;
  bool asked = false;
};

namespace nqd::collectives::emulated {
namespace {

struct Pending {
  int depth = 0;
  ncclComm* comm = nullptr;
  std::vector<std::pair<Operation, DeviceStream>> operations;
};
thread_local Pending pending;

void launch(ncclComm& comm, std::vector<std::pair<Operation, DeviceStream>> operations) {
  if (operations.empty()) return;
  std::vector<Operation> together;
  for (const auto& [operation, stream] : operations) together.push_back(operation);
  Device::put(operations.front().second,
              [group = comm.group, rank = comm.rank, sequence = comm.sequence,
               together = std::move(together)] { group->run(rank, *sequence, together); });
}

// Binds a split that has come about; whether it has.
bool resolved(ncclComm& comm) {
  if (comm.group) return true;
  const std::lock_guard lock(comm.parent->mutex);
  if (comm.split->arrived < comm.parent->size) return false;
  comm.group = comm.split->parts.at(comm.color);
  comm.rank = comm.split->rank_in_part.at(comm.rank_in_parent);
  return true;
}

NcclResult add(ncclComm* comm, DeviceStream stream, const Operation& operation) {
  pending.comm = comm;
  pending.operations.emplace_back(operation, stream);
  if (pending.depth > 0) return NcclResult::kSuccess;
  auto operations = std::exchange(pending.operations, {});
  if (comm->blocking) {
    launch(*comm, std::move(operations));
    return NcclResult::kSuccess;
  }
  comm->waiting.insert(comm->waiting.end(), operations.begin(), operations.end());
  return NcclResult::kInProgress;
}

}  // namespace

std::string Nccl::text(NcclResult result) {
  return "emulated result " + std::to_string(static_cast<int>(result));
}

std::string Nccl::last_error(NcclHandle) { return "emulated last error"; }

NcclResult Nccl::unique_id(NcclUniqueId& id) {
  const std::lock_guard lock(mutex_);
  ++next_id_;
  std::memcpy(id.bytes.data(), &next_id_, sizeof next_id_);
  return NcclResult::kSuccess;
}

NcclResult Nccl::init(NcclHandle& comm, int ranks, const NcclUniqueId& id, int rank,
                      const NcclCommOptions& options) {
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, made] : groups_) {
      if (known.bytes == id.bytes) group = made;
    }
    if (!group) group = groups_.emplace_back(id, std::make_shared<Group>(ranks)).second;
  }
  ++live_;
  comm = new ncclComm;
  comm->group = group;
  comm->rank = rank;
  comm->blocking = options.blocking;
  const std::lock_guard lock(group->mutex);
  ++group->joined;
  return NcclResult::kInProgress;
}

NcclResult Nccl::split(NcclHandle comm, int color, int key, NcclHandle& part,
                       const NcclCommOptions& options) {
  Group& group = *comm->group;
  std::unique_lock lock(group.mutex);
  auto& split = group.splits[comm->splits++];
  if (!split) split = std::make_shared<Split>();
  split->choices.resize(static_cast<std::size_t>(group.size));
  split->choices[static_cast<std::size_t>(comm->rank)] = {color, key};
  if (split->arrived + 1 == group.size) split->resolve();
  ++split->arrived;
  group.changed.notify_all();
  part = nullptr;
  if (color < 0) return NcclResult::kInProgress;
  ++live_;
  part = new ncclComm;
  part->parent = comm->group;
  part->split = split;
  part->rank_in_parent = comm->rank;
  part->color = color;
  part->blocking = options.blocking;
  return NcclResult::kInProgress;
}

NcclResult Nccl::async_error(NcclHandle comm, NcclResult& state) {
  state = NcclResult::kInProgress;
  if (!resolved(*comm)) return NcclResult::kSuccess;
  {
    const std::lock_guard lock(comm->group->mutex);
    const NcclResult failure = comm->group->failures[static_cast<std::size_t>(comm->rank)];
    if (failure != NcclResult::kSuccess) {
      state = failure;
      return NcclResult::kSuccess;
    }
    if (comm->group->joined < comm->group->size) return NcclResult::kSuccess;
  }
  if (!comm->waiting.empty()) {
    comm->asked = !comm->asked;
    if (comm->asked) return NcclResult::kSuccess;
    launch(*comm, std::exchange(comm->waiting, {}));
  }
  state = NcclResult::kSuccess;
  return NcclResult::kSuccess;
}

NcclResult Nccl::finalize(NcclHandle) { return NcclResult::kInProgress; }

NcclResult Nccl::destroy(NcclHandle comm) {
  --live_;
  delete comm;
  return NcclResult::kSuccess;
}

NcclResult Nccl::end_now(NcclHandle comm) {
  ++aborted_;
  if (comm->group) {
    Group& group = *comm->group;
    std::unique_lock lock(group.mutex);
    group.aborted = true;
    for (NcclResult& failure : group.failures) {
      if (failure == NcclResult::kSuccess) failure = NcclResult::kRemoteError;
    }
    group.changed.notify_all();
    group.changed.wait(lock, [&] { return group.reading == 0; });
  }
  return destroy(comm);
}

NcclResult Nccl::allocate(std::byte*& memory, std::size_t bytes) {
  if (!allocates_) return NcclResult::kInvalidUsage;
  ++live_;
  memory = new std::byte[bytes];
  return NcclResult::kSuccess;
}

NcclResult Nccl::release(std::byte* memory) {
  --live_;
  delete[] memory;
  return NcclResult::kSuccess;
}

NcclResult Nccl::register_buffer(NcclHandle, std::byte* memory, std::size_t, void*& handle) {
  ++live_;
  handle = memory;
  return NcclResult::kSuccess;
}

NcclResult Nccl::deregister_buffer(NcclHandle, void*) {
  --live_;
  return NcclResult::kSuccess;
}

NcclResult Nccl::all_reduce(const std::byte* in, std::byte* out, std::size_t count, DType type,
                            ReduceOp op, NcclHandle comm, DeviceStream stream) {
  return add(comm, stream, {Collective::kAllReduce, in, out, count, type, op});
}

NcclResult Nccl::all_gather(const std::byte* in, std::byte* out, std::size_t count, DType type,
                            NcclHandle comm, DeviceStream stream) {
  return add(comm, stream, {Collective::kAllGather, in, out, count, type});
}

NcclResult Nccl::reduce_scatter(const std::byte* in, std::byte* out, std::size_t count, DType type,
                                ReduceOp op, NcclHandle comm, DeviceStream stream) {
  return add(comm, stream, {Collective::kReduceScatter, in, out, count, type, op});
}

NcclResult Nccl::reduce(const std::byte* in, std::byte* out, std::size_t count, DType type,
                        ReduceOp op, int root, NcclHandle comm, DeviceStream stream) {
  return add(comm, stream, {Collective::kReduce, in, out, count, type, op, root});
}

NcclResult Nccl::broadcast(const std::byte* in, std::byte* out, std::size_t count, DType type,
                           int root, NcclHandle comm, DeviceStream stream) {
  return add(comm, stream, {Collective::kBroadcast, in, out, count, type, ReduceOp::kSum, root});
}

NcclResult Nccl::send(const std::byte* in, std::size_t count, DType type, int peer, NcclHandle comm,
                      DeviceStream stream) {
  return add(comm, stream, {Collective::kSendRecv, in, nullptr, count, type, ReduceOp::kSum, peer});
}

NcclResult Nccl::receive(std::byte* out, std::size_t count, DType type, int peer, NcclHandle comm,
                         DeviceStream stream) {
  return add(comm, stream,
             {Collective::kSendRecv, nullptr, out, count, type, ReduceOp::kSum, peer});
}

NcclResult Nccl::group_start() {
  ++pending.depth;
  return NcclResult::kSuccess;
}

NcclResult Nccl::group_end() {
  if (--pending.depth > 0 || pending.operations.empty()) return NcclResult::kSuccess;
  ncclComm& comm = *pending.comm;
  auto operations = std::exchange(pending.operations, {});
  if (comm.blocking) {
    launch(comm, std::move(operations));
    return NcclResult::kSuccess;
  }
  comm.waiting.insert(comm.waiting.end(), operations.begin(), operations.end());
  return NcclResult::kInProgress;
}

NcclResult Nccl::group_simulate(double& seconds) {
  --pending.depth;
  const auto operations = std::exchange(pending.operations, {});
  if (operations.empty() || !pending.comm->blocking) return NcclResult::kInvalidUsage;
  seconds = 1e-6 * static_cast<double>(operations.size());
  return NcclResult::kSuccess;
}

void Nccl::fail(int rank, NcclResult result) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, group] : groups_) group->fail(rank, result);
}

}  // namespace nqd::collectives::emulated
