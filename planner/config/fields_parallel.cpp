#include <array>

#include "planner/config/field_parts.h"

namespace nqd::planner {
namespace {

constexpr std::array<std::string_view, 5> kEngines = {"ddp", "zero1", "zero2", "zero3", "hsdp"};
constexpr std::array<std::string_view, 6> kSchedules = {"gpipe", "1f1b",  "interleaved",
                                                        "zb-h1", "zb-h2", "zb-v"};
constexpr std::array<std::string_view, 2> kOrders = {"tp-cp-pp-dp", "tp-cp-dp-pp"};

constexpr std::array kFields = {
    Field{.path = "parallel.engine",
          .kind = Kind::kChoice,
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.engine; },
          .choices = kEngines,
          .doc = "How state is shared over dp: replicated (ddp), or sharded optimizer (zero1), + "
                 "gradients (zero2), + weights (zero3; hsdp: inside groups).",
          .also = "strategy sharding_strategy zero_stage"},
    Field{.path = "parallel.dp",
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.dp; },
          .range = whole(1, kMaxRanks),
          .fallback = "devices / (tp · cp · pp)",
          .doc = "Data-parallel ranks, outermost in the mesh.",
          .also = "data_parallel data_parallel_size dp_size"},
    Field{.path = "parallel.tp",
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.tp; },
          .range = whole(1, 4096),
          .doc = "Tensor-parallel ranks, innermost, inside one node.",
          .also = "tensor_parallel tensor_parallel_size tensor_model_parallel_size tp_size"},
    Field{.path = "parallel.pp",
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.pp; },
          .range = whole(1, 4096),
          .doc = "Pipeline stages.",
          .also = "pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp_size"},
    Field{.path = "parallel.cp",
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.cp; },
          .range = whole(1, 4096),
          .doc = "Context-parallel ranks: each holds a part of every sequence.",
          .also = "context_parallel context_parallel_size context_parallel_degree"},
    Field{
        .path = "parallel.ep",
        .slot = [](Draft& d) -> Slot { return &d.config.parallel.ep; },
        .range = whole(1, 4096),
        .doc = "Expert-parallel ranks, taken from tp · cp · dp: each holds a part of the experts.",
        .also = "expert_model_parallel_size expert_parallel_size expert_parallel_degree"},
    Field{.path = "parallel.expert_tp",
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.expert_tp; },
          .range = whole(0, 4096),
          .fallback = "tp",
          .doc = "Tensor-parallel ranks inside an expert; 0 = tp.",
          .also = "expert_tensor_parallel_size"},
    Field{.path = "parallel.vpp",
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.vpp; },
          .range = whole(1, 4096),
          .doc = "Virtual stages a rank; above 1 needs the interleaved schedule.",
          .also = "virtual_pipeline virtual_pipeline_model_parallel_size"},
    Field{
        .path = "parallel.hsdp_shard",
        .slot = [](Draft& d) -> Slot { return &d.config.parallel.hsdp_shard; },
        .range = whole(0, kMaxRanks),
        .unit = "ranks",
        .fallback =
            "engine hsdp: the largest divisor of dp up to gpus_per_node / (tp · cp · pp), without "
            "pp in order tp-cp-dp-pp; else 0",
        .doc = "Size of one hsdp shard group.",
        .also = "data_parallel_shard_degree dp_shard hybrid_shard_size"},
    Field{.path = "parallel.world_size",
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.world_size; },
          .range = whole(1, kMaxRanks),
          .unit = "ranks",
          .fallback = "dp · tp · cp · pp",
          .doc = "When given, checked against dp · tp · cp · pp.",
          .also = "world ranks num_gpus"},
    Field{.path = "parallel.order",
          .kind = Kind::kChoice,
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.order; },
          .choices = kOrders,
          .doc = "Axes of the mesh from the innermost: who are neighbours. tp-cp-dp-pp is that of "
                 "Megatron-LM.",
          .also = "mesh_order rank_order use_tp_pp_dp_mapping"},
    Field{.path = "parallel.schedule",
          .kind = Kind::kChoice,
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.schedule; },
          .choices = kSchedules,
          .doc = "Pipeline schedule.",
          .also = "pipeline_schedule"},
    Field{.path = "parallel.sequence_parallel",
          .kind = Kind::kBoolean,
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.sequence_parallel; },
          .doc = "Shard the activations between tp blocks along the sequence; needs tp > 1.",
          .also = "sp"},
    Field{.path = "parallel.async_tensor",
          .kind = Kind::kBoolean,
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.async_tensor; },
          .doc = "Tensor parallelism gathers and reduces in pieces, beside the products that use "
                 "them, and never holds a gathered input whole.",
          .also = "async_tp enable_async_tensor_parallel tp_comm_overlap"},
    Field{.path = "parallel.pipeline_split",
          .kind = Kind::kIntegers,
          .slot = [](Draft& d) -> Slot { return &d.config.parallel.pipeline_split; },
          .range = whole(1, 4096),
          .unit = "layers",
          .doc = "Layers of each of the pp · vpp stages; [] = an even split.",
          .also = "pipeline_model_parallel_layout layers_per_stage stage_layers"},
};

}  // namespace

std::span<const Field> parallel_fields() { return kFields; }

}  // namespace nqd::planner
