#include "planner/import/published/platform.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace nqd::planner::published {
namespace {

// The first row whose words all occur. Longer names come before those that they contain.
struct GpuRule {
  std::string_view word;
  std::string_view other_word;
  std::string_view gpu;
};
constexpr std::array kGpus = {
    GpuRule{"gb300", "", "gb300"},
    GpuRule{"gb200", "", "gb200"},
    GpuRule{"b300", "", "b300"},
    GpuRule{"b200", "", "b200"},
    GpuRule{"blackwell", "", "b200"},
    GpuRule{"h200", "", "h200-sxm"},
    GpuRule{"h100", "pcie", "h100-pcie"},
    GpuRule{"h100", "hbm2e", "h100-hbm2e-96"},
    GpuRule{"h100", "", "h100-sxm"},
    GpuRule{"a100", "80gb", "a100-sxm-80"},
    GpuRule{"a100", "40gb", "a100-sxm-40"},
    GpuRule{"a100", "", "a100-sxm-80"},
    // Sold where exports are limited: the same part with narrower links.
    GpuRule{"a800", "", "a100-sxm-80"},
    GpuRule{"h800", "", "h100-sxm"},
    GpuRule{"ampere", "", "a100-sxm-80"},
    GpuRule{"hopper", "", "h100-sxm"},
    GpuRule{"v100", "", "v100-sxm2-32"},
    GpuRule{"mi250", "", "mi250x"},
    GpuRule{"mi300", "", "mi300x"},
};

// A word of the network, and the machine of that device that has it.
struct ClusterRule {
  std::string_view gpu;
  std::string_view word;
  std::string_view cluster;
  double network_bytes_per_s = 0;  // of one device, when the row does not say; 0 = the preset's
};
constexpr std::array kClusters = {
    ClusterRule{"gb300", "", "gb300-nvl72"},
    ClusterRule{"gb200", "", "gb200-nvl72"},
    ClusterRule{"b300", "", "dgx-b300"},
    ClusterRule{"b200", "", "dgx-b200"},
    ClusterRule{"h200-sxm", "", "dgx-h200"},
    // Part of one machine alone, Grand Teton, which has a 400G port a device.
    ClusterRule{"h100-hbm2e-96", "", "roce-h100", 50e9},
    ClusterRule{"h100-sxm", "roce", "roce-h100"},
    ClusterRule{"h100-sxm", "", "dgx-h100"},
    ClusterRule{"a100-sxm-80", "roce", "roce-a100"},
    ClusterRule{"a100-sxm-80", "", "dgx-a100"},
    ClusterRule{"a100-sxm-40", "roce", "roce-a100"},
    ClusterRule{"a100-sxm-40", "", "dgx-a100-40"},
    ClusterRule{"v100-sxm2-32", "", "dgx-v100"},
};

constexpr std::array kTraits = {
    StackTraits{.stack = "megatron-2021",
                .attention = Attention::kMaterialised,
                .gradients = Precision::kFloat16,
                .dropout = true,
                .counts_recomputation = true},
    StackTraits{.stack = "deepspeed-zero3-2021",
                .runtime = Runtime::kDeepSpeed,
                .attention = Attention::kMaterialised,
                .gradients = Precision::kFloat16,
                .engine = Engine::kZero3,
                .dropout = true,
                .counts_recomputation = true},
    StackTraits{.stack = "megatron-2022",
                .attention = Attention::kMaterialised,
                .gradients = Precision::kFloat32,
                .dropout = true},
    StackTraits{.stack = "megatron-deepspeed-2022",
                .attention = Attention::kMaterialised,
                .gradients = Precision::kFloat16,
                .dropout = true,
                .counts_recomputation = true},
    StackTraits{.stack = "zero-bubble-2023",
                .attention = Attention::kMaterialised,
                .gradients = Precision::kFloat16,
                .dropout = true},
    StackTraits{.stack = "llm-foundry-2023", .runtime = Runtime::kFsdp2, .engine = Engine::kZero3},
    StackTraits{.stack = "megatron-core-2024", .engine = Engine::kZero1, .sequence_parallel = true},
    StackTraits{.stack = "nemo-2024", .engine = Engine::kZero1, .sequence_parallel = true},
    StackTraits{.stack = "torchtitan-2024",
                .runtime = Runtime::kFsdp2,
                .engine = Engine::kZero3,
                .sequence_parallel = true},
    StackTraits{.stack = "torchtitan-rowwise-2025",
                .runtime = Runtime::kFsdp2,
                .engine = Engine::kZero3,
                .sequence_parallel = true},
    StackTraits{.stack = "megatron-core-2025",
                .gradients = Precision::kBFloat16,
                .engine = Engine::kZero1,
                .sequence_parallel = true,
                .counts_causal = true,
                .usually_fp8 = true},
    StackTraits{.stack = "megatron-core-2026",
                .gradients = Precision::kBFloat16,
                .engine = Engine::kZero1,
                .sequence_parallel = true,
                .counts_causal = true,
                .usually_fp8 = true},
};

// First match wins: a word of the row's own account of its software, then the era of its device.
struct StackRule {
  std::string_view word;
  std::string_view gpu;   // prefix of the device preset; empty = any
  std::int64_t zero = 0;  // stage that the row names; 0 = any
  std::string_view stack;
  int since = 0;  // of the container, as year · 100 + month; 0 = any
};
constexpr std::array kStacks = {
    StackRule{"torchtitan float8 rowwise", "", 0, "torchtitan-rowwise-2025"},
    StackRule{"torchtitan", "", 0, "torchtitan-2024"},
    StackRule{"llm-foundry", "", 0, "llm-foundry-2023"},
    StackRule{"mosaicml", "", 0, "llm-foundry-2023"},
    StackRule{"zero bubble", "", 0, "zero-bubble-2023"},
    StackRule{"megatron-bridge", "", 0, "megatron-core-2026", 2606},
    StackRule{"megatron-bridge", "", 0, "megatron-core-2025"},
    // NeMo before Megatron-Bridge took its place (25.09).
    StackRule{"dgxc-benchmarking", "", 0, "nemo-2024"},
    StackRule{"nemo", "", 0, "nemo-2024"},
    StackRule{"megatron-deepspeed", "", 0, "megatron-deepspeed-2022"},
    StackRule{"megatron-turing", "", 0, "megatron-deepspeed-2022"},
    StackRule{"narayanan", "", 3, "deepspeed-zero3-2021"},
    StackRule{"narayanan", "", 0, "megatron-2021"},
    StackRule{"korthikanti", "", 0, "megatron-2022"},
    // Only the device tells the date of these.
    StackRule{"", "v100", 0, "megatron-2021"},
    StackRule{"", "a100", 3, "deepspeed-zero3-2021"},
    StackRule{"megascale", "", 0, "megatron-core-2024"},
    // A gated MLP is of the Llama kind, which came in 2023.
    StackRule{"gated", "a100", 0, "megatron-core-2024"},
    StackRule{"", "a100", 0, "megatron-2022"},
    StackRule{"", "h", 0, "megatron-core-2024"},
    StackRule{"", "mi", 0, "megatron-core-2024"},
    StackRule{"", "", 0, "megatron-core-2025"},
};

// Software and devices that no preset stands for.
constexpr std::array<std::string_view, 3> kForeignSoftware = {"maxtext", "paxml", "jax"};

// Year · 100 + month of "26.06.01 NeMo Container"; 0 = not said.
int container_date(const Fields& row) {
  int year = 0;
  int month = 0;
  const std::string container = row.text("container");
  if (std::sscanf(container.c_str(), "%2d.%2d", &year, &month) != 2) return 0;
  return year * 100 + month;
}

const StackTraits* traits_of(std::string_view stack) {
  return std::find_if(kTraits.begin(), kTraits.end(),
                      [&](const StackTraits& traits) { return traits.stack == stack; });
}

std::string software_of(const Fields& row, const std::string& description) {
  std::string software = row.lower("framework");
  if (software.empty()) {
    software = row.lower("container") + ' ' + row.lower("source") + ' ' + row.lower("section") +
               ' ' + lower_case(description);
  }
  if (row.flag("arch.gated_mlp").value_or(false)) software += " gated";
  if (contains(software, "torchtitan") && contains(row.lower("precision"), "rowwise")) {
    software += " torchtitan float8 rowwise";
  }
  return software;
}

std::string_view gpu_of(const std::string& gpu) {
  for (const GpuRule& rule : kGpus) {
    if (contains(gpu, rule.word) && contains(gpu, rule.other_word)) return rule.gpu;
  }
  return {};
}

// The number that ends just before `suffix`: 1600 in "with 1600 gbps node".
double number_before(const std::string& text, std::string_view suffix) {
  const std::size_t at = text.find(suffix);
  if (at == std::string::npos) return 0;
  std::size_t first = at;
  while (first > 0 && std::isdigit(static_cast<unsigned char>(text[first - 1])) != 0) --first;
  return std::strtod(text.substr(first, at - first).c_str(), nullptr);
}

// Of one device, from "800 Gb/s per node", "1600 Gbps node-node", "400G RDMA/GPU", "8x400G",
// "8x HDR200"; nodes have 8 devices. 0 = not said.
double network_rate(const std::string& text) {
  constexpr double kGigabit = 1e9 / 8;
  if (const double a_node = number_before(text, " gb/s per node"); a_node > 0) {
    return a_node / 8 * kGigabit;
  }
  if (const double a_node = number_before(text, " gbps node"); a_node > 0) {
    return a_node / 8 * kGigabit;
  }
  if (const double a_device = number_before(text, "g rdma/gpu"); a_device > 0) {
    return a_device * kGigabit;
  }
  const std::size_t adapters = text.find("8x");
  if (adapters == std::string::npos) return 0;
  const std::size_t digits = text.find_first_of("0123456789", adapters + 2);
  if (digits == std::string::npos || digits > adapters + 7) return 0;
  return std::strtod(text.c_str() + digits, nullptr) * kGigabit;
}

}  // namespace

Platform platform_of(const Fields& row, const std::string& description) {
  Platform platform;
  const std::string gpu = row.lower("gpu");
  platform.gpu = gpu_of(gpu);
  if (platform.gpu.empty()) {
    platform.problem = gpu.empty() ? "the row names no device"
                                   : "no device preset stands for \"" + row.text("gpu") + '"';
    return platform;
  }
  const std::string network = gpu + ' ' + row.lower("section") + ' ' + row.lower("network");
  platform.network_bytes_per_s = network_rate(network);
  for (const ClusterRule& rule : kClusters) {
    if (rule.gpu == platform.gpu && contains(network, rule.word)) {
      platform.cluster = rule.cluster;
      if (platform.network_bytes_per_s == 0) {
        platform.network_bytes_per_s = rule.network_bytes_per_s;
      }
      break;
    }
  }
  // "800 Gb/s per node" of HDR ports, 200 Gb/s each, the widest that machines of A100 have.
  if (platform.gpu.starts_with("a100") && number_before(network, " gb/s per node") > 0) {
    platform.nics_per_node =
        std::max<std::int64_t>(1, std::llround(8 * platform.network_bytes_per_s / 25e9));
  }
  const std::string software = software_of(row, description);
  for (const std::string_view word : kForeignSoftware) {
    if (contains(software, word) || contains(row.lower("model"), word)) {
      platform.problem = "no stack preset stands for " + std::string(word);
      return platform;
    }
  }
  const std::int64_t zero = row.count_or("zero", 0);
  const int date = container_date(row);
  const auto* rule = std::find_if(kStacks.begin(), kStacks.end(), [&](const StackRule& candidate) {
    return contains(software, candidate.word) && platform.gpu.starts_with(candidate.gpu) &&
           (candidate.zero == 0 || candidate.zero == zero) && candidate.since <= date;
  });
  platform.stack = rule->stack;
  platform.traits = traits_of(rule->stack);
  return platform;
}

}  // namespace nqd::planner::published
