// The text of Megatron-LM's --pipeline-model-parallel-layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::planner {

// One stage (virtual ones count) of a pipeline.
struct LayoutStage {
  bool embedding = false;
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;
  bool loss = false;
};

// The grammar of parse_str_to_list in megatron/core/transformer/pipeline_parallel_layer_layout.py
// (github.com/NVIDIA/Megatron-LM): stages between `|`, in each E (embedding), t (layer), m
// (multi-token prediction) and L (loss); `x*n` and `(…)*n` repeat, commas mean nothing. First all
// ranks' first stage, then all ranks' second one. Nothing for other text, for a stage in another
// order than E t m L, and for more than 65536 bytes of stages written out.
std::optional<std::vector<LayoutStage>> parse_pipeline_layout(std::string_view text);

// The layout of stages with these layers: embedding first, prediction modules and loss last.
std::string pipeline_layout(const std::vector<std::int64_t>& layers, std::int64_t mtp_layers);

}  // namespace nqd::planner
