#include "planner/estimate/memory/runtime_memory.h"

#include <algorithm>

#include "base/units.h"

namespace nqd::planner {
namespace {

// PyTorch's cross-entropy over float32 logits, peak in its backward: 16-bit logits, float32
// log-softmax, gradients of both sides of it, and the first bytes of the 16-bit gradient. Read off
// torchtitan's runs of 8k and 32k tokens, and right on those of 131k and 262k.
constexpr double kEagerLossBytes = 15;
// 16-bit logits and one float32 copy, which becomes their gradient.
constexpr double kFusedLossBytes = 6;
// 16-bit logits, float32 probabilities and their gradient of a fused vocabulary-parallel loss.
constexpr double kMegatronLossBytes = 10;
// What an eager run reserves beyond a compiled one of the same model: (82.4 − 77.0) of 62 GiB
// (torchtitan's table 1).
constexpr double kEagerReserve = 0.087;
// reduce_bucket_size and allgather_bucket_size of DeepSpeed.
constexpr double kDeepSpeedBucket = 5e8;
// "overlap_comm uses 4.5x the allgather_bucket_size and reduce_bucket_size values" (Hugging Face,
// DeepSpeed integration).
constexpr double kDeepSpeedOverlap = 2 * 4.5;
// stage3_max_live_parameters.
constexpr double kDeepSpeedLive = 1e9;
constexpr double kContextBytes = 0.5 * kGiB;
constexpr double kCommunicatorBytes = 0.25 * kGiB;

}  // namespace

RuntimeMemory runtime_memory(const Config& config) {
  RuntimeMemory memory;
  switch (config.train.runtime) {
    case Runtime::kNqd:
      break;
    case Runtime::kMegatron:
      memory.loss_bytes = kMegatronLossBytes;
      memory.reserve_share = kEagerReserve;
      memory.reduces_in_place = true;
      memory.id_bytes = 8;
      break;
    case Runtime::kDeepSpeed:
      memory.loss_bytes = kEagerLossBytes;
      memory.reserve_share = kEagerReserve;
      memory.bucket_elements = kDeepSpeedBucket;
      memory.overlapped_buckets = kDeepSpeedOverlap;
      memory.live_elements = kDeepSpeedLive;
      memory.id_bytes = 8;
      break;
    case Runtime::kFsdp2:
      memory.loss_bytes = kEagerLossBytes;
      // A layer gathers two inputs and reduces two outputs, forward and backward, and the head
      // gathers its input. Asynchronous tensor parallelism never holds a gathered input whole.
      memory.tensor_buffers = config.parallel.async_tensor ? 7 : 9;
      // Gathered forward and backward; their gradients computed, joined to be sent, and received.
      // The allocator reuses none of them while the collectives' stream may read it.
      memory.context_parts = 5;
      memory.context_gathers = true;
      memory.receives_ahead = true;
      memory.reserve_share = config.train.fused_kernels ? 0 : kEagerReserve;
      memory.id_bytes = 8;
      memory.float32_shards = true;
      break;
  }
  if (config.train.fused_loss) memory.loss_bytes = std::min(memory.loss_bytes, kFusedLossBytes);
  return memory;
}

bool has_devices(const ClusterSpec& cluster) {
  if (cluster.preset == "cpu-host") return false;
  return !cluster.preset.empty() || cluster.peak_flops > 0;
}

double device_context_bytes(const ClusterSpec& cluster, std::int64_t communicators) {
  if (!has_devices(cluster)) return 0;
  return kContextBytes + kCommunicatorBytes * static_cast<double>(communicators);
}

}  // namespace nqd::planner
