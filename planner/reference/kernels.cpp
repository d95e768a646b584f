#include "planner/reference/kernels.h"

#include <algorithm>
#include <array>
#include <string>

#include "planner/plan/time.h"

namespace nqd::planner {
namespace {

enum class Law : std::uint8_t { kProduct, kAttention, kPass };

// Where nothing is measured: operations a unit, or elements read and written a unit, `stored` of
// them in the storage type and the others in float32.
struct KernelFacts {
  std::string_view name;
  Law law = Law::kPass;
  double operations = 0;
  double stored = 0;
  double floats = 0;
};

constexpr std::array<KernelFacts, kKernels> kFacts = {{
    {"forward_product", Law::kProduct, 1},
    {"sliced_product", Law::kProduct, 1},
    {"input_product", Law::kProduct, 1},
    {"stacked_product", Law::kProduct, 1},
    {"weight_product", Law::kProduct, 1},
    {"fresh_product", Law::kProduct, 1},
    {"attention", Law::kAttention, 4},
    {"attention_backward", Law::kAttention, 10},
    {"layer_norm", Law::kPass, 0, 2},
    {"layer_norm_backward", Law::kPass, 0, 4},
    {"layer_norm_gradient", Law::kPass, 0, 2},
    {"rms_norm", Law::kPass, 0, 2},
    {"rms_norm_backward", Law::kPass, 0, 4},
    {"rms_norm_gradient", Law::kPass, 0, 2},
    {"gelu", Law::kPass, 0, 2},
    {"gelu_backward", Law::kPass, 0, 3},
    {"swiglu", Law::kPass, 0, 3},
    {"swiglu_backward", Law::kPass, 0, 5},
    {"softmax", Law::kPass, 0, 0, 2},
    {"softmax_backward", Law::kPass, 0, 0, 2},
    {"residual", Law::kPass, 0, 2, 1},
    {"copy", Law::kPass, 0, 2},
    {"dropout", Law::kPass, 0, 2},
    {"column_sums", Law::kPass, 0, 1},
    {"rotary", Law::kPass, 0, 2},
    {"narrow", Law::kPass, 0, 1, 1},
    {"lookup", Law::kPass, 0, 2},
    {"lookup_backward", Law::kPass, 0, 1, 2},
    {"fill", Law::kPass, 0, 0, 1},
    {"add", Law::kPass, 0, 0, 3},
    {"squares", Law::kPass, 0, 0, 1},
    {"adamw", Law::kPass, 0, 0, 7},
    {"sgd", Law::kPass, 0, 0, 5},
}};

const KernelFacts& facts(Kernel kernel) { return kFacts[static_cast<std::size_t>(kernel)]; }

// Query rows of a block of engine/cpu/blocked_attention.h.
constexpr std::int64_t kQueryBlock = 48;

double scores_of(std::int64_t tokens, bool causal) {
  if (!causal) return static_cast<double>(tokens) * static_cast<double>(tokens);
  double scores = 0;
  for (std::int64_t first = 0; first < tokens; first += kQueryBlock) {
    const std::int64_t end = std::min(first + kQueryBlock, tokens);
    scores += static_cast<double>(end - first) * static_cast<double>(end);
  }
  return scores;
}

}  // namespace

std::string_view name(Kernel kernel) { return facts(kernel).name; }

std::optional<Kernel> parse_kernel(std::string_view text) {
  for (std::size_t i = 0; i < kKernels; ++i) {
    if (kFacts[i].name == text) return static_cast<Kernel>(i);
  }
  return std::nullopt;
}

KernelCost cost_of(const KernelCall& call, bool causal) {
  const auto elements = static_cast<double>(call.m) * static_cast<double>(call.n);
  switch (facts(call.kernel).law) {
    case Law::kProduct:
      return {elements, 2 * elements * static_cast<double>(call.k)};
    case Law::kAttention: {
      const double scores = static_cast<double>(call.m) * scores_of(call.n, causal);
      return {scores, scores * static_cast<double>(call.k)};
    }
    case Law::kPass:
      break;
  }
  return {1, elements};
}

KernelRate fit_kernel(Kernel kernel, const std::vector<KernelSample>& samples) {
  // Of the rows (items, units) ÷ seconds, whose target is 1.
  double ii = 0, iu = 0, uu = 0, i1 = 0, u1 = 0;
  for (const KernelSample& sample : samples) {
    const double i = sample.cost.items / sample.seconds;
    const double u = sample.cost.units / sample.seconds;
    ii += i * i;
    iu += i * u;
    uu += u * u;
    i1 += i;
    u1 += u;
  }
  KernelRate rate{std::string(name(kernel)), 0, 0};
  const double determinant = ii * uu - iu * iu;
  // Calls of one proportion do not tell the two apart.
  if (determinant > 1e-9 * ii * uu) {
    rate.item_s = (i1 * uu - u1 * iu) / determinant;
    rate.unit_s = (u1 * ii - i1 * iu) / determinant;
  }
  if (rate.item_s <= 0 && uu > 0) return {rate.kernel, 0, u1 / uu};
  if (rate.unit_s <= 0) return {rate.kernel, i1 / ii, 0};
  return rate;
}

EngineRates assumed_rates(const ClusterSpec& cluster, Precision precision) {
  const double rate = gemm_rate_flops(cluster);
  const double stored_bytes = precision == Precision::kFloat32 ? 4 : 2;
  EngineRates rates;
  rates.precision = precision;
  for (const KernelFacts& kernel : kFacts) {
    const double bytes = stored_bytes * kernel.stored + 4 * kernel.floats;
    const double unit_s = kernel.operations / rate + bytes / cluster.memory_bandwidth_bytes_per_s;
    rates.kernels.push_back({std::string(kernel.name), 0, unit_s});
  }
  return rates;
}

}  // namespace nqd::planner
