#include "planner/estimate/time/block_time.h"

#include <algorithm>
#include <cmath>

#include "planner/mesh/fabric.h"
#include "planner/mesh/stages.h"
#include "planner/models/dimensions.h"
#include "planner/plan/time.h"

namespace nqd::planner {
namespace {

// Kernels of a layer: norms, bias and dropout with the residual sum, activation, reshapes.
constexpr double kForwardKernels = 8;
constexpr double kBackwardKernels = 12;

// Score bytes of softmax and dropout of one pass, a score element in 16 bits with a byte of mask:
// read, written, read by dropout with its mask. Unfused softmax also scales, masks and converts.
constexpr double kFusedForwardBytes = 9;
constexpr double kFusedBackwardBytes = 11;
constexpr double kUnfusedForwardBytes = 27;
constexpr double kUnfusedBackwardBytes = 25;

}  // namespace

void PassTime::add(const PassTime& other, double times) {
  device_s += times * other.device_s;
  host_s += times * other.host_s;
  tensor_s += times * other.tensor_s;
  context_s += times * other.context_s;
  expert_s += times * other.expert_s;
  tensor_busy_s += times * other.tensor_busy_s;
  context_busy_s += times * other.context_busy_s;
  expert_busy_s += times * other.expert_busy_s;
}

void BlockTime::add(const BlockTime& other, double times) {
  forward.add(other.forward, times);
  backward.add(other.backward, times);
  weight_s += times * other.weight_s;
  parameters += times * other.parameters;
  expert_parameters += times * other.expert_parameters;
}

// Device seconds of a block by what makes them.
struct BlockPricer::Work {
  double products_s = 0;
  double input_products_s = 0;
  double weight_products_s = 0;
  double attention_forward_s = 0;
  double attention_backward_s = 0;
  double pointwise_forward_s = 0;
  double pointwise_backward_s = 0;
  double host_forward_s = 0;
  double host_backward_s = 0;
};

BlockPricer::BlockPricer(const Config& config, const ModelShape& shape)
    : config_(config), shape_(shape) {
  const ClusterSpec& cluster = config.cluster;
  const GpuConstants& device = cluster.device;
  gemm_rate_ = gemm_rate_flops(cluster);
  batched_rate_ = device.batched_gemm_share * cluster.peak_flops;
  const double flash =
      config.stack.portable_attention ? device.portable_flash_share : device.flash_share;
  flash_rate_ = flash * config.stack.attention_share * cluster.peak_flops;
  memory_rate_ = device.memory_share * cluster.memory_bandwidth_bytes_per_s;
  element_bytes_ = static_cast<double>(weight_bytes(config.train));
  kv_heads_ = is_transformer(config.model) ? dimensions_of(config.model).kv_heads : 0;
}

// rows × k · k × n. A tile of the result adds gemm_fill steps to the k that it sums over.
double BlockPricer::product_s(double rows, double k, double n, double rate) const {
  const GpuConstants& device = config_.cluster.device;
  const double bytes = element_bytes_ * (rows * k + k * n + rows * n);
  return std::max(2 * rows * (k + device.gemm_fill) * n / rate, bytes / memory_rate_) +
         device.gemm_fixed_s;
}

// Dimensions that are no multiple of 8 keep 16-bit products off the matrix units. A split
// vocabulary is padded by whoever splits it.
double BlockPricer::product_rate(const BlockKey& key, double k, double n, bool fp8) const {
  const bool aligned = key.tp > 1 || (std::fmod(k, 8) == 0 && std::fmod(n, 8) == 0);
  if (!aligned) return gemm_rate_ * config_.cluster.device.unaligned_share;
  if (!fp8) return gemm_rate_;
  return gemm_rate_ * std::max(1.0, config_.cluster.device.fp8_speedup * config_.stack.fp8_share);
}

void BlockPricer::add_products(const BlockKey& key, const BlockShape& block, bool layer,
                               Work& work) const {
  const bool fp8 = config_.train.precision == Precision::kFp8 && layer;
  const auto tp = static_cast<double>(key.tp);
  const double own_expert_tp = static_cast<double>(expert_tp_of(config_.parallel, key.tp));
  for (const MatmulShape& matmul : block.matmuls) {
    double rows = matmul.rows * key.micro_batch_size / key.cp;
    double k = matmul.k;
    double n = matmul.n;
    double count = matmul.count;
    if (matmul.split == Split::kTensor) (matmul.split_k ? k : n) /= tp;
    if (matmul.split == Split::kSequence && key.sequence_parallel) rows /= tp;
    if (matmul.split == Split::kExpert) {
      // Balanced routing: a rank gets as many copies as it brings, spread over its experts.
      const double experts = matmul.groups / key.ep;
      rows *= own_expert_tp / tp / experts;
      count *= experts;
      (matmul.split_k ? k : n) /= own_expert_tp;
    }
    const double rate = product_rate(key, k, n, fp8);
    work.products_s += count * product_s(rows, k, n, rate);
    work.input_products_s += count * product_s(rows, n, k, rate);
    work.weight_products_s += count * product_s(k, rows, n, rate);
    if (!fp8) continue;
    const double quantise = config_.stack.quantise_bytes * rows * k * count / memory_rate_;
    work.pointwise_forward_s += quantise;
    work.pointwise_backward_s += quantise;
  }
}

// Scores that are written: two batched products forward and four backward, softmax and dropout
// between them. Megatron's fused softmax runs only for whole multiples of its batch of rows.
void BlockPricer::add_scores(double batched, double rows, const AttentionShape& attention,
                             Work& work) const {
  const StackSpec& stack = config_.stack;
  const double width = (attention.qk_dim + attention.v_dim) / 2;
  const double flops = 2 * rows * attention.rows * width;
  const double bytes = element_bytes_ * ((rows + attention.rows) * width + rows * attention.rows);
  const double product = batched * std::max(flops / batched_rate_, bytes / memory_rate_);
  const bool fused = stack.softmax_batch_multiple <= 1 ||
                     std::fmod(batched, static_cast<double>(stack.softmax_batch_multiple)) == 0;
  const double scores = batched * rows * attention.rows / memory_rate_;
  work.attention_forward_s +=
      2 * product + scores * (fused ? kFusedForwardBytes : kUnfusedForwardBytes);
  work.attention_backward_s +=
      4 * product + scores * (fused ? kFusedBackwardBytes : kUnfusedBackwardBytes);
  if (!fused) work.host_forward_s += stack.host_unfused_softmax_s;
}

void BlockPricer::add_attention(const BlockKey& key, const AttentionShape& attention,
                                Work& work) const {
  if (attention.heads <= 0) return;
  const double batched = key.micro_batch_size * std::max(1.0, attention.heads / key.tp);
  if (config_.train.attention == Attention::kMaterialised) {
    return add_scores(batched, attention.rows / key.cp, attention, work);
  }
  const double flops = attention.forward_flops() * key.micro_batch_size / (key.cp * key.tp);
  const double forward = flops / flash_rate_;
  work.attention_forward_s += forward;
  // Five products where forward has two: the scores are computed again.
  work.attention_backward_s += 2.5 * config_.cluster.device.flash_backward_cost * forward;
}

void BlockPricer::add_pointwise(const BlockKey& key, const BlockShape& block, Work& work) const {
  const double per_element = key.micro_batch_size * element_bytes_ * eager_factor() / memory_rate_;
  const Division division = division_of(key);
  for (const Pointwise& pass : block.pointwise) {
    if (pass.name == "logits" && shape_.vocab > 0) continue;  // priced by stack.loss_bytes
    const double traffic = pass.split == Split::kExpert ? config_.stack.expert_traffic
                                                        : config_.stack.pointwise_traffic;
    const double share = activation_share(pass.split, division) * per_element * traffic;
    work.pointwise_forward_s += share * pass.forward_elements;
    work.pointwise_backward_s += share * pass.backward_elements;
  }
}

BlockKey BlockPricer::key_of(const Candidate& c) const {
  BlockKey key{c.tp, c.cp, c.ep, 1, c.micro_batch_size, c.recompute, c.sequence_parallel};
  const std::int64_t replica = std::int64_t{c.tp} * c.cp;
  if (c.ep > 1 && c.ep * expert_tp_of(config_.parallel, c.tp) > replica) {
    const bool stages_first = config_.parallel.order == MeshOrder::kPpThenDp;
    key.expert_stride = static_cast<std::int32_t>(replica * (stages_first ? c.pp : 1));
  }
  return key;
}

Division BlockPricer::division_of(const BlockKey& key) const {
  return {key.tp,   key.cp, key.ep, expert_tp_of(config_.parallel, key.tp), key.sequence_parallel,
          kv_heads_};
}

// Asynchronous tensor parallelism cuts a sum into a piece a rank: all but the first travel while
// the product that makes or takes them works on another (Wang et al., ASPLOS 2023).
double BlockPricer::tensor_exposed_s(const BlockKey& key, double busy, double products_s) const {
  const double exposed = busy * config_.stack.tensor_exposed;
  if (!config_.parallel.async_tensor) return exposed;
  return std::min(exposed, std::max(busy / key.tp, busy - products_s));
}

// Tensor parallelism sums (with sequence parallelism: gathers and scatters, as many bytes) after
// attention and after the MLP.
void BlockPricer::add_tensor_sums(const BlockKey& key, const BlockShape& block, const Work& work,
                                  BlockTime& time) const {
  if (key.tp <= 1 || block.tensor_sums <= 0) return;
  const ClusterSpec& cluster = config_.cluster;
  // With sequence parallelism a sum is a scatter of 16-bit results and a gather of what enters the
  // next product, 8 bits wide under fp8.
  const bool narrow = key.sequence_parallel && config_.train.precision == Precision::kFp8;
  const double bytes =
      block.output_elements * key.micro_batch_size / key.cp * element_bytes_ * (narrow ? 0.75 : 1);
  const double busy = block.tensor_sums * all_reduce_cost(cluster, place(cluster, key.tp, 1),
                                                          cluster.fabric.network_share)
                                              .seconds(bytes);
  const double host =
      block.tensor_sums * config_.stack.host_collective_s * std::log2(static_cast<double>(key.tp));
  for (PassTime* pass : {&time.forward, &time.backward}) {
    pass->tensor_busy_s += busy;
    pass->host_s += host;
  }
  time.forward.tensor_s += tensor_exposed_s(key, busy, work.products_s);
  const double backward_products = work.input_products_s + work.weight_products_s;
  if (!key.sequence_parallel) {
    time.backward.tensor_s += tensor_exposed_s(key, busy, backward_products);
    return;
  }
  // Backward gathers the inputs of the split products again (Korthikanti et al., section 4.2.2).
  const double again = block.tensor_sums * all_gather_cost(cluster, place(cluster, key.tp, 1),
                                                           cluster.fabric.network_share)
                                               .seconds(bytes);
  time.backward.tensor_busy_s += again;
  if (config_.parallel.async_tensor) {
    time.backward.tensor_s += tensor_exposed_s(key, busy + again, backward_products);
    return;
  }
  // A stack that hides any of this traffic hides these first: the gradient of the weights, which
  // does not wait for them, runs beside them.
  time.backward.tensor_s += tensor_exposed_s(key, busy, backward_products) +
                            (config_.stack.tensor_exposed >= 1 ? again : 0);
}

// Keys and values go around the ring of context-parallel ranks; backward sends them and their
// gradients.
void BlockPricer::add_context_ring(const BlockKey& key, const BlockShape& block,
                                   BlockTime& time) const {
  const AttentionShape& attention = block.attention;
  if (key.cp <= 1 || attention.heads <= 0) return;
  const ClusterSpec& cluster = config_.cluster;
  const double heads = attention.kv_heads / std::min<double>(key.tp, attention.kv_heads);
  const double bytes = attention.rows * key.micro_batch_size / key.cp * heads *
                       (attention.qk_dim + attention.v_dim) * element_bytes_;
  const ExchangeCost gather =
      all_gather_cost(cluster, place(cluster, key.cp, key.tp), cluster.fabric.network_share);
  const double forward = gather.seconds(bytes * key.cp);
  const double share = config_.stack.context_exposed;
  time.forward.context_busy_s += forward;
  time.forward.context_s += share * forward;
  time.backward.context_busy_s += 2 * forward;
  time.backward.context_s += 2 * share * forward;
}

// Domains beside its own that a token's k experts, spread evenly over `nodes`, lie in, ÷ its copies
// that lie there: a dispatcher that sends a token once to each domain sends so many of them.
double BlockPricer::copies_crossing(const Placement& group) const {
  const double nodes = static_cast<double>(group.size) / static_cast<double>(group.together);
  const auto copies = static_cast<double>(config_.model.moe.experts_per_token);
  return nodes * (1 - std::pow(1 - 1 / nodes, copies)) / copies;
}

// Copies of tokens go to their experts and come back, in both passes.
void BlockPricer::add_expert_exchange(const BlockKey& key, const BlockShape& block,
                                      BlockTime& time) const {
  if (key.ep <= 1 || block.all_to_all_elements <= 0) return;
  const ClusterSpec& cluster = config_.cluster;
  const double bytes =
      dispatched_elements(block, division_of(key)) * key.micro_batch_size * element_bytes_;
  const std::int64_t expert_tp = expert_tp_of(config_.parallel, key.tp);
  const Placement group =
      place_in_stage(cluster, key.ep, expert_tp, std::int64_t{key.tp} * key.cp, key.expert_stride);
  const double crossing = config_.stack.experts_share_copies ? copies_crossing(group) : 1;
  const double busy =
      2 * all_to_all_cost(cluster, group, cluster.fabric.network_share, crossing).seconds(bytes);
  for (PassTime* pass : {&time.forward, &time.backward}) {
    pass->expert_busy_s += busy;
    pass->expert_s += busy * config_.stack.expert_exposed;
  }
}

double BlockPricer::eager_factor() const {
  return config_.train.fused_kernels ? 1 : config_.stack.eager_traffic;
}

void BlockPricer::add_overheads(const BlockShape& block, Work& work) const {
  const StackSpec& stack = config_.stack;
  const double kernel = config_.cluster.device.kernel_s;
  const bool experts = block.all_to_all_elements > 0;
  work.pointwise_forward_s += eager_factor() * kForwardKernels * kernel + stack.layer_overhead_s;
  work.pointwise_backward_s += eager_factor() * kBackwardKernels * kernel + stack.layer_overhead_s;
  // An expert that takes its even share alone (a capacity) takes a number of tokens that is known
  // beforehand; without one the host waits for the numbers.
  const bool waits = experts && config_.model.moe.capacity_factor <= 0;
  const double host =
      config_.cluster.device.host_cost * (stack.host_layer_s + (waits ? stack.host_experts_s : 0));
  work.host_forward_s += host;
  work.host_backward_s += stack.host_backward_ratio * host;
}

BlockTime BlockPricer::price(const BlockKey& key, const BlockShape& block,
                             std::int64_t kind) const {
  const bool layer = kind != shape_.embedding && kind != shape_.head;
  Work work;
  add_products(key, block, layer, work);
  add_attention(key, block.attention, work);
  // A custom block names its arithmetic alone; backward does it twice, as for products.
  const double given_s = block.extra_forward_flops * key.micro_batch_size / gemm_rate_;
  work.products_s += given_s;
  work.input_products_s += given_s;
  work.weight_products_s += given_s;
  add_pointwise(key, block, work);
  if (layer) add_overheads(block, work);
  if (kind == shape_.head || kind == shape_.mtp) {
    const double logits = shape_.rows * key.micro_batch_size / key.cp * shape_.vocab / key.tp;
    const StackSpec& stack = config_.stack;
    const double bytes = config_.train.fused_loss
                             ? std::min(stack.loss_bytes, stack.fused_loss_bytes)
                             : stack.loss_bytes;
    const double loss = 0.5 * bytes * logits / memory_rate_;
    work.pointwise_forward_s += loss;
    work.pointwise_backward_s += loss;
  }
  BlockTime time;
  time.forward.device_s = work.products_s + work.attention_forward_s + work.pointwise_forward_s;
  time.forward.host_s = work.host_forward_s;
  time.backward.device_s = work.input_products_s + work.weight_products_s +
                           work.attention_backward_s + work.pointwise_backward_s;
  time.backward.host_s = work.host_backward_s;
  time.weight_s = work.weight_products_s;
  if (layer) {
    add_tensor_sums(key, block, work, time);
    add_context_ring(key, block, time);
    add_expert_exchange(key, block, time);
  }
  if (layer && key.recompute == Recompute::kFull) time.backward.add(time.forward, 1);
  if (layer && key.recompute == Recompute::kSelective) {
    time.backward.device_s += work.attention_forward_s;
    // Keys and values of the other ranks were not kept either.
    time.backward.context_s += time.forward.context_s;
    time.backward.context_busy_s += time.forward.context_busy_s;
  }
  time.parameters = block.parameters.dense_of_rank(key.tp);
  time.expert_parameters =
      block.parameters.expert_of_rank(key.ep, expert_tp_of(config_.parallel, key.tp));
  return time;
}

void BlockPricer::price(const BlockKey& key, BlockTime* out) const {
  for (std::size_t kind = 0; kind < shape_.kinds.size(); ++kind) {
    out[kind] = price(key, shape_.kinds[kind], static_cast<std::int64_t>(kind));
  }
}

}  // namespace nqd::planner
