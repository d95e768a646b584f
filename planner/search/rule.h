// Why a candidate is rejected: the mesh rules that a search can break, each under the code of its
// diagnostic, and the memory limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/estimate/candidate.h"
#include "planner/spec.h"

namespace nqd::planner::search {

// In the order in which a candidate is judged, outer axes first: it counts under the first that it
// breaks.
enum class Rule : std::uint8_t {
  kSize,             // no more ranks than nqd plans for
  kDevices,          // dp·tp·pp·cp is the number of devices
  kFamily,           // only transformers have heads and layers to split
  kContextFamily,    // and sequences
  kTpDomain,         // tp inside a scale-up domain
  kHeads,            // whole heads a tp rank
  kKvHeads,          // whole groups of keys and values
  kWidths,           // whole columns of the MLP
  kFp8,              // sides that 8-bit products take
  kExpertTp,         // an expert over some of the ranks of a tp group
  kExpertWidths,     // whole columns of an expert
  kContext,          // cp ranks hold equal parts of a sequence
  kLayers,           // a layer for every virtual stage
  kBatch,            // micro_batch_size·dp divides the global batch
  kExperts,          // whole experts an ep rank
  kExpertRanks,      // ep·expert_tp ranks are taken from dp·cp·tp
  kShards,           // equal hsdp shard groups
  kShardSize,        // several, of several ranks
  kOffload,          // offloading needs sharding
  kRuntimeEngine,    // an engine that the runtime has
  kRuntimePipeline,  // beside a pipeline too
  kSchedule,         // a schedule for this pp and vpp
  kRecomputeGroups,  // recompute_every divides the layers of a virtual stage
  kSequenceNoTp,     // sequence parallelism needs tp
  kSequence,         // and equal parts
  kExpertTokens,     // experts beside tp need sequence parallelism
  kGroups,           // interleaved: micro-batches in groups of pp
  kMemory,           // fits the device
};
inline constexpr std::size_t kRules = 28;
using RuleCounts = std::array<std::int64_t, kRules>;

struct RuleInfo {
  std::string_view code;   // "NQD1203"
  std::string_view name;   // "tp-domain"
  std::string_view title;  // "tp leaves the scale-up domain"
};
const RuleInfo& info(Rule rule);
// "NQD1203 tp-domain", the key of `rejected` in the JSON document.
std::string label(Rule rule);

// What the rules need of a config.
struct Facts {
  std::int64_t devices = 1;
  std::int64_t gpus_per_node = 1;
  std::int64_t nvlink_domain = 0;
  std::int64_t global_batch_size = 1;
  std::int64_t recompute_every = 1;
  std::int64_t expert_tp = 0;
  std::int64_t hsdp_shard = 0;
  MeshOrder order = MeshOrder::kPpThenDp;
  bool offload = false;
  Precision precision = Precision::kBFloat16;
  Runtime runtime = Runtime::kNqd;
  bool transformer = true;
  bool shaped = true;  // false: only the number of parameters is known
  bool causal = true;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t sequence = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t experts = 0;
  std::int64_t expert_hidden = 0;
  std::int64_t shared_expert_hidden = 0;
};
Facts facts_of(const Config& config);

// The first rule that a candidate breaks, by the axes that decide it. Each assumes that those
// before it found nothing.
std::optional<Rule> mesh_violation(const Facts& facts, const Candidate& candidate) noexcept;
std::optional<Rule> expert_violation(const Facts& facts, const Candidate& candidate) noexcept;
std::optional<Rule> engine_violation(const Facts& facts, const Candidate& candidate) noexcept;
std::optional<Rule> schedule_violation(const Facts& facts, const Candidate& candidate) noexcept;
std::optional<Rule> recompute_violation(const Facts& facts, const Candidate& candidate) noexcept;
std::optional<Rule> sequence_violation(const Facts& facts, const Candidate& candidate) noexcept;
std::optional<Rule> batch_violation(const Facts& facts, const Candidate& candidate) noexcept;
// The first of all these; never kMemory.
std::optional<Rule> first_violation(const Facts& facts, const Candidate& candidate) noexcept;

}  // namespace nqd::planner::search
