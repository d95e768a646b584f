#include <array>

#include "planner/config/field_parts.h"

namespace nqd::planner {
namespace {

constexpr Range kShare = {.low = 0, .high = 1, .low_open = true};

constexpr std::array kFields = {
    Field{.path = "cluster.device.gemm_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.gemm_share; },
          .range = kShare,
          .doc = "Rate of a large matrix product as a share of the peak; cluster.gemm_flops "
                 "replaces it."},
    Field{.path = "cluster.device.gemm_fixed_s",
          .kind = Kind::kSeconds,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.gemm_fixed_s; },
          .range = kAtLeastZero,
          .doc = "Launch, ramp-up and tail of one matrix product."},
    Field{.path = "cluster.device.gemm_fill",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.gemm_fill; },
          .range = kAtLeastZero,
          .doc = "Steps of the summed dimension that filling a tile of a matrix product costs."},
    Field{.path = "cluster.device.unaligned_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.unaligned_share; },
          .range = kShare,
          .doc = "Rate of products with a dimension that is no multiple of 8, as a share of "
                 "gemm_share."},
    Field{.path = "cluster.device.batched_gemm_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.batched_gemm_share; },
          .range = kShare,
          .doc =
              "Rate of the products of scores that are written to memory, as a share of the peak."},
    Field{.path = "cluster.device.flash_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.flash_share; },
          .range = kShare,
          .doc = "Rate of the best fused attention kernel, forward, as a share of the peak."},
    Field{.path = "cluster.device.portable_flash_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.portable_flash_share; },
          .range = kShare,
          .doc =
              "Rate of a fused attention kernel that is not written for the device, forward, as a "
              "share of the peak."},
    Field{.path = "cluster.device.flash_backward_cost",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.flash_backward_cost; },
          .range = kPositive,
          .doc = "Seconds a FLOP of its backward as a multiple of its forward."},
    Field{.path = "cluster.device.memory_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.memory_share; },
          .range = kShare,
          .doc = "Share of the memory bandwidth that element-wise kernels reach."},
    Field{.path = "cluster.device.kernel_s",
          .kind = Kind::kSeconds,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.kernel_s; },
          .range = kAtLeastZero,
          .doc = "One element-wise kernel, beside its bytes."},
    Field{.path = "cluster.device.fp8_speedup",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.fp8_speedup; },
          .range = kPositive,
          .doc = "Rate of 8-bit matrix products as a multiple of 16-bit ones."},
    Field{.path = "cluster.device.host_cost",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.device.host_cost; },
          .range = kPositive,
          .doc = "Host times of a stack as a multiple of those on x86 servers."},
    Field{.path = "cluster.fabric.scale_up_bandwidths",
          .kind = Kind::kNumbers,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.scale_up_bandwidths; },
          .range = kPositive,
          .doc = "All_reduce of 2, 3, … ranks in one scale-up domain: bus bandwidth in bytes/s; "
                 "larger groups take the last."},
    Field{.path = "cluster.fabric.scale_up_latencies",
          .kind = Kind::kNumbers,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.scale_up_latencies; },
          .range = kAtLeastZero,
          .doc = "Their constant parts in seconds."},
    Field{.path = "cluster.fabric.scale_up_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.scale_up_share; },
          .range = kShare,
          .doc = "Share of intra_node.bandwidth_bytes_per_s that collectives reach, without such a "
                 "list."},
    Field{.path = "cluster.fabric.network_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.network_share; },
          .range = kShare,
          .doc = "Share of the adapters that large messages reach, alone."},
    Field{.path = "cluster.fabric.gradient_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.gradient_share; },
          .range = kShare,
          .doc =
              "Share of the adapters that the all_reduce of gradients reaches, all ranks at once."},
    Field{.path = "cluster.fabric.shared_adapter_share",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.shared_adapter_share; },
          .range = kShare,
          .doc =
              "More of that share for groups of several ranks a node whose devices are more than "
              "its adapters."},
    Field{.path = "cluster.fabric.network_latency_s",
          .kind = Kind::kSeconds,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.network_latency_s; },
          .range = kAtLeastZero,
          .doc = "One step of a ring across nodes."},
    Field{.path = "cluster.fabric.slot_latency_s",
          .kind = Kind::kSeconds,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.slot_latency_s; },
          .range = kAtLeastZero,
          .doc = "What a pipeline slot waits for a stage of another node."},
    Field{.path = "cluster.fabric.host_link_bandwidth",
          .kind = Kind::kBytesPerSecond,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.host_link_bandwidth; },
          .range = kPositive,
          .doc = "One device to and from its host's memory, one direction: what an offloaded "
                 "optimizer's gradients and weights travel over."},
    Field{.path = "cluster.fabric.host_memory_bandwidth",
          .kind = Kind::kBytesPerSecond,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.host_memory_bandwidth; },
          .range = kPositive,
          .doc = "What one rank's offloaded optimizer reaches of its host's memory."},
    Field{.path = "cluster.fabric.straggler_growth",
          .kind = Kind::kNumber,
          .slot = [](Draft& d) -> Slot { return &d.config.cluster.fabric.straggler_growth; },
          .range = kAtLeastZero,
          .doc = "Growth of the step each time the number of nodes doubles, as a share."},
};

}  // namespace

std::span<const Field> device_fields() { return kFields; }

}  // namespace nqd::planner
