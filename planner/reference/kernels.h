// The kernels that a step of nqd's own engine is made of, and how their time grows with what they
// are given: the words in which `nqd bench engine` measures and the planner predicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

enum class Kernel : std::uint8_t {
  // Products C[m,n] = op(A)[m,k] · op(B)[k,n].
  kForwardProduct,  // x · Wᵀ
  kSlicedProduct,   // x · Wᵀ over a k that tp divides: canonical numerics cut it into slices
  kInputProduct,    // dy · W
  kStackedProduct,  // dy · W likewise, over the stacked blocks (q | k | v, gate | up) of a layer
  kWeightProduct,   // C += dyᵀ · x
  kFreshProduct,    // C = dyᵀ · x, the first of a sum
  // Attention of m heads in all sequences, n tokens, k columns a head.
  kAttention,
  kAttentionBackward,
  // Passes over m rows of n columns.
  kLayerNorm,
  kLayerNormBackward,
  kLayerNormGradient,  // of its weight and bias
  kRmsNorm,
  kRmsNormBackward,
  kRmsNormGradient,
  kGelu,
  kGeluBackward,
  kSwiglu,
  kSwigluBackward,
  kSoftmax,          // of the cross-entropy: maximum and sum of exponentials
  kSoftmaxBackward,  // logits become their gradients
  kResidual,         // residual + product + bias
  kCopy,
  kDropout,
  kColumnSums,
  kRotary,
  kNarrow,  // float32 to the storage type
  kLookup,
  kLookupBackward,
  kFill,
  kAdd,
  kSquares,  // the exact sum of squares of the gradient norm
  kAdamw,
  kSgd,
};
inline constexpr std::size_t kKernels = static_cast<std::size_t>(Kernel::kSgd) + 1;

std::string_view name(Kernel kernel);  // "forward_product", "attention_backward", …
std::optional<Kernel> parse_kernel(std::string_view name);

struct KernelCall {
  Kernel kernel = Kernel::kCopy;
  std::int64_t m = 0, n = 0, k = 0;
  double calls = 1;
  bool operator==(const KernelCall&) const = default;
};

// What the time of one call grows with.
//   products   items: m·n elements written; units: 2·m·n·k operations
//   attention  items: scores, of each 48 queries against the keys that the last of them sees
//              (causal) or all; units: scores · k
//   passes     items: the call; units: m·n elements
struct KernelCost {
  double items = 0;
  double units = 0;
};
KernelCost cost_of(const KernelCall& call, bool causal = true);

// Least squares of relative error of seconds = item_s · items + unit_s · units over measured calls,
// neither below 0. Precondition: one at least, positive.
struct KernelSample {
  KernelCost cost;
  double seconds = 0;
};
KernelRate fit_kernel(Kernel kernel, const std::vector<KernelSample>& samples);

// Rates for a cluster whose kernels nobody measured: operations at gemm_rate_flops, elements at the
// memory bandwidth. Precondition: both above 0.
EngineRates assumed_rates(const ClusterSpec& cluster, Precision precision);

}  // namespace nqd::planner
