// What each runtime holds on a device beside the tensors of the model. docs/memory.md gives the
// source of every number.
#pragma once

#include <cstdint>

#include "planner/spec.h"

namespace nqd::planner {

struct RuntimeMemory {
  // Bytes a logit when the loss is computed and differentiated, and of these what waits for the
  // backward when all micro-batches run forward first.
  double loss_bytes = 4;
  double loss_kept_bytes = 4;
  // Buffers of rows · hidden elements that tensor parallelism with sequence parallelism gathers
  // into and reduces from.
  double tensor_buffers = 2;
  // Keys and values that context parallelism holds beside a rank's own: `context_parts` copies of a
  // rank's part, or of the whole sequence in every query head.
  double context_parts = 2;
  bool context_gathers = false;
  // torch.distributed.pipelining keeps the outputs of micro-batches in flight, and has buffers to
  // receive every micro-batch of the step and its gradient.
  bool receives_ahead = false;
  double id_bytes = 4;  // of one token id
  // Fragmentation of the caching allocator: reserved but unused, as a share of transient bytes.
  double reserve_share = 0;
  // Elements of the buckets that gradients are reduced in; 0 = train.bucket_bytes.
  double bucket_elements = 0;
  double overlapped_buckets = 1;  // of such buckets, when reduction overlaps with backward
  bool reduces_in_place = false;  // gradients lie in one buffer that is reduced as it is
  double live_elements = 0;       // gathered weights at most; 0 = the unit in use and the next
  // Sharded weights are float32, and gathered in the training precision.
  bool float32_shards = false;
};
RuntimeMemory runtime_memory(const Config& config);

// False for CPU ranks: nothing is set aside for a driver there. (A cluster with a stated device
// peak is one of devices, unless its preset is cpu-host.)
bool has_devices(const ClusterSpec& cluster);

// The driver's context and the buffers of `communicators` groups, outside any allocator.
double device_context_bytes(const ClusterSpec& cluster, std::int64_t communicators);

}  // namespace nqd::planner
