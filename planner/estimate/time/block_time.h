// Roofline of one block on one rank: seconds of device, host and communication for a micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/estimate/candidate.h"
#include "planner/mesh/fabric.h"
#include "planner/models/shape.h"
#include "planner/spec.h"

namespace nqd::planner {

// What the times of a block depend on.
struct BlockKey {
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  std::int32_t ep = 1;
  // From a rank to the same one of the next replica where experts are exchanged among replicas;
  // else 1, so that meshes that differ in it alone share an entry.
  std::int32_t expert_stride = 1;
  std::int32_t micro_batch_size = 1;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;
  bool operator==(const BlockKey&) const = default;
};

// Seconds of one pass. Communication is what is not hidden behind compute, `…_busy_s` all of it.
struct PassTime {
  double device_s = 0;
  double host_s = 0;
  double tensor_s = 0;
  double context_s = 0;
  double expert_s = 0;
  double tensor_busy_s = 0;
  double context_busy_s = 0;
  double expert_busy_s = 0;

  double exposed_s() const { return tensor_s + context_s + expert_s; }
  void add(const PassTime& other, double times);
};

struct BlockTime {
  PassTime forward;
  PassTime backward;             // with what is recomputed
  double weight_s = 0;           // part of backward.device_s that only makes gradients of weights
  double parameters = 0;         // elements of the rank, routed experts aside
  double expert_parameters = 0;  // elements of the rank's routed experts

  // Both passes, with the communication that the device waits for.
  double device_s() const {
    return forward.device_s + forward.exposed_s() + backward.device_s + backward.exposed_s();
  }
  void add(const BlockTime& other, double times);
};

// Prices blocks of one config; `config` and `shape` outlive it.
class BlockPricer {
 public:
  BlockPricer(const Config& config, const ModelShape& shape);

  // All kinds of the shape, in order.
  void price(const BlockKey& key, BlockTime* out) const;

  // The device's rates are known.
  bool known() const { return gemm_rate_ > 0 && memory_rate_ > 0; }
  double memory_rate() const { return memory_rate_; }
  BlockKey key_of(const Candidate& candidate) const;

 private:
  struct Work;
  BlockTime price(const BlockKey& key, const BlockShape& block, std::int64_t kind) const;
  void add_products(const BlockKey& key, const BlockShape& block, bool layer, Work& work) const;
  void add_attention(const BlockKey& key, const AttentionShape& attention, Work& work) const;
  void add_scores(double batched, double rows, const AttentionShape& attention, Work& work) const;
  void add_pointwise(const BlockKey& key, const BlockShape& block, Work& work) const;
  void add_overheads(const BlockShape& block, Work& work) const;
  // Kernels, and their bytes, of a chain that fusion would make one.
  double eager_factor() const;
  // Seconds of one sum over tp that nothing hides, when products of `products_s` run beside it.
  double tensor_exposed_s(const BlockKey& key, double busy, double products_s) const;
  void add_tensor_sums(const BlockKey& key, const BlockShape& block, const Work& work,
                       BlockTime& time) const;
  void add_context_ring(const BlockKey& key, const BlockShape& block, BlockTime& time) const;
  double copies_crossing(const Placement& group) const;
  void add_expert_exchange(const BlockKey& key, const BlockShape& block, BlockTime& time) const;
  Division division_of(const BlockKey& key) const;
  double product_rate(const BlockKey& key, double k, double n, bool fp8) const;
  double product_s(double rows, double k, double n, double rate) const;

  const Config& config_;
  const ModelShape& shape_;
  double gemm_rate_;     // FLOP/s
  double batched_rate_;  // FLOP/s
  double flash_rate_;    // FLOP/s
  double memory_rate_;   // bytes/s
  double element_bytes_;
  std::int64_t kv_heads_;
};

}  // namespace nqd::planner
