#include "planner/validation/constants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"

namespace nqd::planner {
namespace {

constexpr std::array kFields = {
    ConstantField{"gpus", "gemm_share", 0.3, 1,
                  [](Config& c) -> double& { return c.cluster.device.gemm_share; }},
    ConstantField{"gpus", "gemm_fixed_s", 1e-7, 2e-4,
                  [](Config& c) -> double& { return c.cluster.device.gemm_fixed_s; }},
    ConstantField{"gpus", "gemm_fill", 0, 512,
                  [](Config& c) -> double& { return c.cluster.device.gemm_fill; }},
    ConstantField{"gpus", "unaligned_share", 0.1, 1,
                  [](Config& c) -> double& { return c.cluster.device.unaligned_share; }},
    ConstantField{"gpus", "batched_gemm_share", 0.1, 1,
                  [](Config& c) -> double& { return c.cluster.device.batched_gemm_share; }},
    ConstantField{"gpus", "flash_share", 0.1, 1,
                  [](Config& c) -> double& { return c.cluster.device.flash_share; }},
    ConstantField{"gpus", "portable_flash_share", 0.05, 1,
                  [](Config& c) -> double& { return c.cluster.device.portable_flash_share; }},
    ConstantField{"gpus", "flash_backward_cost", 1, 2.5,
                  [](Config& c) -> double& { return c.cluster.device.flash_backward_cost; }},
    ConstantField{"gpus", "memory_share", 0.3, 0.95,
                  [](Config& c) -> double& { return c.cluster.device.memory_share; }},
    ConstantField{"gpus", "kernel_s", 5e-7, 1e-4,
                  [](Config& c) -> double& { return c.cluster.device.kernel_s; }},
    ConstantField{"gpus", "fp8_speedup", 1, 2,
                  [](Config& c) -> double& { return c.cluster.device.fp8_speedup; }},
    ConstantField{"gpus", "host_cost", 0.2, 2,
                  [](Config& c) -> double& { return c.cluster.device.host_cost; }},
    ConstantField{"clusters", "scale_up_share", 0.2, 1,
                  [](Config& c) -> double& { return c.cluster.fabric.scale_up_share; }},
    ConstantField{"clusters", "network_share", 0.2, 1,
                  [](Config& c) -> double& { return c.cluster.fabric.network_share; }},
    ConstantField{"clusters", "gradient_share", 0.1, 1,
                  [](Config& c) -> double& { return c.cluster.fabric.gradient_share; }},
    ConstantField{"clusters", "shared_adapter_share", 0.1, 1,
                  [](Config& c) -> double& { return c.cluster.fabric.shared_adapter_share; }},
    ConstantField{"clusters", "network_latency_s", 1e-6, 1e-4,
                  [](Config& c) -> double& { return c.cluster.fabric.network_latency_s; }},
    ConstantField{"clusters", "slot_latency_s", 1e-6, 1e-2,
                  [](Config& c) -> double& { return c.cluster.fabric.slot_latency_s; }},
    ConstantField{"clusters", "straggler_growth", 0, 0.03,
                  [](Config& c) -> double& { return c.cluster.fabric.straggler_growth; }},
    ConstantField{"stacks", "host_layer_s", 1e-5, 1e-2,
                  [](Config& c) -> double& { return c.stack.host_layer_s; }},
    ConstantField{"stacks", "host_experts_s", 1e-5, 1e-1,
                  [](Config& c) -> double& { return c.stack.host_experts_s; }},
    ConstantField{"stacks", "host_backward_ratio", 0.5, 4,
                  [](Config& c) -> double& { return c.stack.host_backward_ratio; }},
    ConstantField{"stacks", "host_collective_s", 1e-6, 1e-3,
                  [](Config& c) -> double& { return c.stack.host_collective_s; }},
    ConstantField{"stacks", "host_unfused_softmax_s", 1e-6, 1e-2,
                  [](Config& c) -> double& { return c.stack.host_unfused_softmax_s; }},
    ConstantField{"stacks", "host_micro_batch_s", 1e-6, 2e-2,
                  [](Config& c) -> double& { return c.stack.host_micro_batch_s; }},
    ConstantField{"stacks", "host_boundary_s", 1e-6, 2e-2,
                  [](Config& c) -> double& { return c.stack.host_boundary_s; }},
    ConstantField{"stacks", "host_step_s", 1e-5, 1e-1,
                  [](Config& c) -> double& { return c.stack.host_step_s; }},
    ConstantField{"stacks", "host_sharpness", 1.5, 12,
                  [](Config& c) -> double& { return c.stack.host_sharpness; }},
    ConstantField{"stacks", "layer_overhead_s", 1e-6, 5e-3,
                  [](Config& c) -> double& { return c.stack.layer_overhead_s; }},
    ConstantField{"stacks", "attention_share", 0.1, 1,
                  [](Config& c) -> double& { return c.stack.attention_share; }},
    ConstantField{"stacks", "fp8_share", 0.3, 1,
                  [](Config& c) -> double& { return c.stack.fp8_share; }},
    ConstantField{"stacks", "pointwise_traffic", 0.5, 4,
                  [](Config& c) -> double& { return c.stack.pointwise_traffic; }},
    ConstantField{"stacks", "expert_traffic", 1, 12,
                  [](Config& c) -> double& { return c.stack.expert_traffic; }},
    ConstantField{"stacks", "loss_bytes", 8, 100,
                  [](Config& c) -> double& { return c.stack.loss_bytes; }},
    ConstantField{"stacks", "optimizer_bytes", 16, 200,
                  [](Config& c) -> double& { return c.stack.optimizer_bytes; }},
    ConstantField{"stacks", "quantise_bytes", 0, 12,
                  [](Config& c) -> double& { return c.stack.quantise_bytes; }},
    ConstantField{"stacks", "tensor_exposed", 0, 1,
                  [](Config& c) -> double& { return c.stack.tensor_exposed; }},
    ConstantField{"stacks", "context_exposed", 0, 1,
                  [](Config& c) -> double& { return c.stack.context_exposed; }},
    ConstantField{"stacks", "expert_exposed", 0, 1,
                  [](Config& c) -> double& { return c.stack.expert_exposed; }},
    ConstantField{"stacks", "data_exposed", 0, 1,
                  [](Config& c) -> double& { return c.stack.data_exposed; }},
    ConstantField{"stacks", "sharded_share", 0.05, 1,
                  [](Config& c) -> double& { return c.stack.sharded_share; }},
    ConstantField{"stacks", "sharded_sharpness", 1, 10,
                  [](Config& c) -> double& { return c.stack.sharded_sharpness; }},
};

// What differs neither in silicon nor in source text is one constant: memory sizes of a part, ports
// of a machine, and the versions of Megatron-LM that launch the same kernels from Python.
constexpr std::string_view kFitted[] = {
    "gpus.a100-sxm-80+a100-sxm-40.gemm_share",
    "gpus.a100-sxm-80+a100-sxm-40.gemm_fill",
    "gpus.a100-sxm-80+a100-sxm-40.unaligned_share",
    "gpus.a100-sxm-80+a100-sxm-40.portable_flash_share",
    "gpus.a100-sxm-80+a100-sxm-40.memory_share",
    "gpus.h100-sxm+h200-sxm.gemm_share",
    "gpus.h100-hbm2e-96.gemm_share",
    "gpus.h100-sxm+h200-sxm+h100-hbm2e-96.flash_share",
    "gpus.h100-sxm+h200-sxm+h100-hbm2e-96.portable_flash_share",
    "gpus.h100-sxm+h200-sxm+h100-hbm2e-96.memory_share",
    "gpus.h100-sxm+h200-sxm+h100-hbm2e-96.fp8_speedup",
    "gpus.b200+gb200.gemm_share",
    "gpus.gb200+gb300.host_cost",
    "gpus.b300+gb300.gemm_share",
    "gpus.b200+gb200+b300+gb300.flash_share",
    "gpus.b200+gb200+b300+gb300.fp8_speedup",
    "stacks.megatron-2021+megatron-2022+megatron-deepspeed-2022+zero-bubble-2023.host_layer_s",
    "stacks.megatron-2021+megatron-2022+megatron-deepspeed-2022+zero-bubble-2023.host_collective_s",
    "stacks.megatron-2021+megatron-2022+megatron-deepspeed-2022+zero-bubble-2023."
    "host_unfused_softmax_s",
    "stacks.megatron-2021+megatron-2022+megatron-deepspeed-2022+zero-bubble-2023."
    "host_micro_batch_s",
    "stacks.megatron-2021+megatron-2022+megatron-deepspeed-2022+zero-bubble-2023.host_sharpness",
    "stacks.megatron-2021+megatron-2022+megatron-deepspeed-2022.loss_bytes",
    "stacks.megatron-2021.pointwise_traffic",
    "stacks.zero-bubble-2023.pointwise_traffic",
    "stacks.deepspeed-zero3-2021.sharded_share",
    "stacks.llm-foundry-2023.layer_overhead_s",
    "stacks.llm-foundry-2023.pointwise_traffic",
    "stacks.llm-foundry-2023.sharded_share",
    "stacks.nemo-2024+megatron-core-2024.layer_overhead_s",
    "stacks.nemo-2024+megatron-core-2024.tensor_exposed",
    "stacks.nemo-2024+megatron-core-2024.data_exposed",
    "stacks.nemo-2024+megatron-core-2024.host_experts_s",
    "stacks.nemo-2024+megatron-core-2024+megatron-core-2025+megatron-core-2026+llm-foundry-2023+"
    "torchtitan-2024+torchtitan-rowwise-2025.quantise_bytes",
    "stacks.megatron-core-2025+megatron-core-2026.layer_overhead_s",
    "stacks.megatron-core-2025+megatron-core-2026.host_experts_s",
    "stacks.megatron-core-2025.expert_traffic",
    "stacks.torchtitan-2024+torchtitan-rowwise-2025.pointwise_traffic",
    "stacks.torchtitan-rowwise-2025.fp8_share",
    "clusters.dgx-a100+dgx-a100-40+roce-a100.gradient_share",
    "clusters.dgx-a100+dgx-a100-40+roce-a100.shared_adapter_share",
    "clusters.dgx-a100+dgx-a100-40+roce-a100.slot_latency_s",
    "clusters.dgx-a100+dgx-a100-40+roce-a100.straggler_growth",
    "clusters.dgx-h100+dgx-h200+roce-h100.straggler_growth",
};

const std::string& preset_of(const Config& config, std::string_view kind) {
  if (kind == "gpus") return config.cluster.gpu;
  return kind == "stacks" ? config.stack.preset : config.cluster.preset;
}

bool logarithmic(const ConstantField& field) {
  return field.low > 0 && field.high >= 100 * field.low;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == separator) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

// Adds the constant with its value in the first config that has it.
void add_constant(const ConstantField& field, std::vector<std::string> presets,
                  std::span<const Config* const> configs, std::vector<Constant>& found) {
  Constant constant{&field, std::move(presets), 0};
  const auto holder = std::find_if(configs.begin(), configs.end(), [&](const Config* config) {
    return constant.applies_to(*config);
  });
  if (holder == configs.end()) return;
  Config copy = **holder;
  constant.value = field.of(copy);
  found.push_back(std::move(constant));
}

}  // namespace

std::span<const ConstantField> constant_fields() { return kFields; }
std::span<const std::string_view> fitted_constants() { return kFitted; }

std::string Constant::name() const {
  std::string joined;
  for (const std::string& preset : presets) joined += (joined.empty() ? "" : "+") + preset;
  return std::string(field->kind) + "." + joined + "." + std::string(field->name);
}

bool Constant::applies_to(const Config& config) const {
  const std::string& preset = preset_of(config, field->kind);
  return std::find(presets.begin(), presets.end(), preset) != presets.end();
}

double Constant::position() const {
  const double clamped = std::clamp(value, field->low, field->high);
  if (logarithmic(*field))
    return std::log(clamped / field->low) / std::log(field->high / field->low);
  return (clamped - field->low) / (field->high - field->low);
}

double Constant::value_at(double position) const {
  if (logarithmic(*field)) return field->low * std::pow(field->high / field->low, position);
  return field->low + position * (field->high - field->low);
}

std::vector<Constant> find_constants(std::string_view pattern,
                                     std::span<const Config* const> configs, bool optional) {
  std::vector<Constant> found;
  const std::vector<std::string> parts = split(pattern, '.');
  if (parts.size() == 3) {
    std::set<std::string> present;
    for (const Config* config : configs) present.insert(preset_of(*config, parts[0]));
    for (const ConstantField& field : kFields) {
      if (field.kind != parts[0] || (parts[2] != "*" && field.name != parts[2])) continue;
      if (parts[1] == "*") {
        for (const std::string& preset : present) {
          if (!preset.empty()) add_constant(field, {preset}, configs, found);
        }
      } else {
        add_constant(field, split(parts[1], '+'), configs, found);
      }
    }
  }
  if (found.empty() && !optional) {
    throw Error(ExitCode::kUsage, "NQD2062",
                "no constant of these rows is named \"" + std::string(pattern) + '"',
                "name KIND.PRESET.FIELD such as stacks.megatron-2022.host_layer_s; KIND is gpus, "
                "stacks or clusters, and a * stands for every preset or field");
  }
  return found;
}

void set_constants(std::span<const Constant> constants, Config& config) {
  for (const Constant& constant : constants) {
    if (constant.applies_to(config)) constant.field->of(config) = constant.value;
  }
}

}  // namespace nqd::planner
