// Constants of the time model, in three kinds: of a device, of the fabric between devices, and of
// the software that drives them. Each is a physical quantity with a unit; presets in
// configs/presets/{gpus,clusters,stacks}/ give the fitted values and their sources, and a
// calibration overrides them. docs/accuracy.md says how well they predict.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::planner {

// Whose buffers, gradient types and overlap a plan counts.
enum class Runtime : std::uint8_t { kNqd, kMegatron, kDeepSpeed, kFsdp2 };
std::string_view name(Runtime runtime);  // "nqd", "megatron", "deepspeed", "fsdp2"

// One device. Shares are of the data sheet's dense 16-bit peak (cluster.peak_flops) or of its
// memory bandwidth, in (0, 1].
struct GpuConstants {
  double gemm_share = 0.6;     // rate of a large matrix product; cluster.gemm_flops replaces it
  double gemm_fixed_s = 4e-6;  // launch, ramp-up and tail of one matrix product
  double gemm_fill = 0;        // steps of the summed dimension that filling a tile's pipeline costs
  double unaligned_share = 1;  // of gemm_share, when a dimension is no multiple of 8
  double batched_gemm_share = 0.6;    // of the peak: products of scores that are written to memory
  double flash_share = 0.5;           // of the peak: the best fused attention kernel, forward
  double portable_flash_share = 0.3;  // … one not written for this device (Triton of 2023)
  double flash_backward_cost = 1.2;   // seconds a FLOP of its backward ÷ those of its forward
  double memory_share = 0.75;         // element-wise kernels and copies
  double kernel_s = 3e-6;             // one element-wise kernel, beside its bytes
  double fp8_speedup = 1.6;           // 8-bit matrix products ÷ 16-bit ones, at training sizes
  double host_cost = 1;  // a stack's host times ÷ those on x86, for parts with their own processor
};

// Between devices. scale_up_bandwidths[n−2] is what an all_reduce of n ranks in one scale-up domain
// reaches, as bus bandwidth (2(n−1)/n of the payload ÷ seconds, bytes/s), scale_up_latencies[n−2]
// its constant part in seconds; larger groups take the last entry. Empty: cluster.intra_node's α
// and its bandwidth times scale_up_share.
struct FabricConstants {
  std::vector<double> scale_up_bandwidths;
  std::vector<double> scale_up_latencies;
  double scale_up_share = 0.77;     // of intra_node's bandwidth
  double network_share = 0.9;       // of the adapters' rate: large messages, nothing beside them
  double gradient_share = 0.5;      // … an all_reduce of gradients, all ranks at once
  double shared_adapter_share = 1;  // of that, groups of several ranks a node, when its devices are
                                    // more than its adapters: their rings meet in the adapters
  double network_latency_s = 6e-6;  // one step of a ring across nodes
  double slot_latency_s = 0;        // a pipeline slot waits so long for a stage of another node
  // One device to and from its host's memory, one direction: PCIe 4.0 × 16 reaches about 25 GB/s of
  // its 32.
  double host_link_bandwidth = 25e9;
  // What one rank's optimizer on the host reaches of the host's memory: half of two sockets' 410
  // GB/s (8 channels of DDR4-3200 each), among eight ranks.
  double host_memory_bandwidth = 25e9;
  double straggler_growth = 0.005;  // of the step, each time the number of nodes doubles
};

// The software. Host times are those of one rank's launching thread: a pass of a stage takes the
// soft maximum of device and host time, (g^q + h^q)^(1/q).
struct StackSpec {
  std::string preset;                       // as asked, or empty
  double host_layer_s = 0;                  // to launch the forward of one layer
  double host_experts_s = 0;                // … more when the layer routes to experts
  double host_backward_ratio = 2;           // … its backward ÷ its forward
  double host_collective_s = 0;             // … one tensor-parallel sum, times log2 tp
  double host_unfused_softmax_s = 0;        // … more without the fused softmax
  double host_sharpness = 4;                // q
  double host_micro_batch_s = 0;            // around a micro-batch on a stage, never hidden
  double host_boundary_s = 0;               // around a pipeline message, never hidden
  double host_step_s = 0;                   // around a step, never hidden
  double layer_overhead_s = 0;              // device time of a layer and pass that nothing explains
  std::int64_t softmax_batch_multiple = 0;  // fused softmax needs batch · heads to be a multiple of
                                            // it; 0 = it always fits
  bool scatter_messages = false;      // a pipeline message leaves in tp parts and is gathered on
                                      // arrival (Narayanan et al., arXiv:2104.04473, section 4.1)
  bool experts_share_copies = false;  // a token goes once to a node, whose ranks pass it on
  bool portable_attention = false;    // flash attention at device.portable_flash_share
  double attention_share = 1;         // rate of the flash kernel ÷ the device's share
  double fp8_share = 1;               // rate of 8-bit products ÷ the device's: scales by row cost
  double pointwise_traffic = 1;       // bytes of element-wise passes ÷ those of fused ones
  double expert_traffic = 1;          // … of passes over the copies of tokens that experts take
  // train.fused_kernels false: element-wise kernels, and their bytes, ÷ those of fused chains. A
  // bias, an activation or dropout and a sum that run alone each read and write what a fused kernel
  // keeps in registers. 1 where pointwise_traffic holds it.
  double eager_traffic = 2;
  double loss_bytes = 24;  // moved a logit by softmax, loss and their gradient
  // … when train.fused_loss: 16-bit logits read for the sum and for the gradient, which is written.
  double fused_loss_bytes = 6;
  double optimizer_bytes = 28;  // moved a parameter by the optimizer
  double quantise_bytes = 3;    // fp8: moved an element that enters a product
  // Shares of communication that compute does not hide.
  double tensor_exposed = 1;
  double context_exposed = 1;
  double expert_exposed = 1;
  double data_exposed = 1;  // reduction of gradients and gather of weights, once a step
  // Sharded weights (zero3, hsdp) hide behind compute as a soft maximum with this q.
  double sharded_share = 0.5;  // of the link's rate that their gathers and scatters reach
  double sharded_sharpness = 3;
};

}  // namespace nqd::planner
