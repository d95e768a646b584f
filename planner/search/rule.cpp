#include "planner/search/rule.h"

#include "planner/mesh/fabric.h"
#include "planner/rules/legality.h"

namespace nqd::planner::search {
namespace {

constexpr std::array<RuleInfo, kRules> kInfo = {{
    {"NQD1224", "size", "more ranks than nqd plans for"},
    {"NQD1202", "devices", "tp·cp·pp·dp is not the number of devices"},
    {"NQD1221", "family", "the model has no heads or layers to split"},
    {"NQD1230", "context-family", "the model has no sequence to split"},
    {"NQD1203", "tp-domain", "tp leaves the scale-up domain"},
    {"NQD1204", "heads", "heads not divisible by tp"},
    {"NQD1225", "kv-heads", "groups of keys and values not divisible by tp"},
    {"NQD1228", "widths", "the MLP not divisible by tp"},
    {"NQD1255", "fp8", "sides that 8-bit matrix products do not take"},
    {"NQD1237", "expert-tp", "expert_tp does not divide tp"},
    {"NQD1239", "expert-widths", "an expert not divisible by expert_tp"},
    {"NQD1231", "context", "the sequence not divisible by cp"},
    {"NQD1206", "layers", "more stages than layers"},
    {"NQD1209", "batch", "the global batch not divisible by dp"},
    {"NQD1235", "experts", "experts not divisible by ep"},
    {"NQD1236", "expert-ranks", "ep does not divide the ranks"},
    {"NQD1215", "shards", "unequal hsdp shard groups"},
    {"NQD1262", "shard-size", "hsdp without shards or without copies"},
    {"NQD1248", "offload", "offloading without sharding"},
    {"NQD1249", "runtime-engine", "the runtime has no such engine"},
    {"NQD1250", "runtime-pipeline", "the runtime has no such engine beside a pipeline"},
    {"NQD1223", "schedule", "no such schedule for pp and vpp"},
    {"NQD1246", "recompute-groups", "stages not divisible by recompute_every"},
    {"NQD1212", "sequence-parallel", "sequence parallelism without tp"},
    {"NQD1213", "sequence", "the sequence not divisible by tp"},
    {"NQD1254", "expert-tokens", "experts beside tp without sequence parallelism"},
    {"NQD1211", "groups", "micro-batches not in groups of pp"},
    {"NQD1301", "memory", "does not fit the device"},
}};

bool fp8_takes(const Facts& facts, std::int64_t side, std::int64_t tp) noexcept {
  return !rules::divides(tp, side) || rules::fp8_takes(facts.precision, side / tp);
}

std::int64_t hsdp_shard(const Facts& f, const Candidate& c) noexcept {
  if (f.hsdp_shard > 0) return f.hsdp_shard;
  const std::int64_t stages = f.order == MeshOrder::kPpThenDp ? c.pp : 1;
  return default_hsdp_shard(f.gpus_per_node, {{}, c.dp, std::int64_t{c.tp} * c.cp * stages});
}

}  // namespace

const RuleInfo& info(Rule rule) { return kInfo[static_cast<std::size_t>(rule)]; }

std::string label(Rule rule) {
  return std::string(info(rule).code) + " " + std::string(info(rule).name);
}

Facts facts_of(const Config& config) {
  const ModelSpec& model = config.model;
  Facts facts;
  facts.devices = config.cluster.devices();
  facts.gpus_per_node = config.cluster.gpus_per_node;
  facts.nvlink_domain = config.cluster.nvlink_domain;
  facts.global_batch_size = config.train.global_batch_size;
  facts.recompute_every = config.train.recompute_every;
  facts.expert_tp = config.parallel.expert_tp;
  facts.hsdp_shard = config.parallel.hsdp_shard;
  facts.order = config.parallel.order;
  facts.offload = config.train.optimizer.offload;
  facts.precision = config.train.precision;
  facts.runtime = config.train.runtime;
  facts.transformer = is_transformer(model);
  facts.shaped = model.family != "state";
  facts.causal = model.causal;
  facts.layers = model.layers;
  facts.hidden = model.hidden;
  facts.heads = model.heads;
  facts.kv_heads = model.kv_heads;
  facts.sequence = model.sequence;
  facts.ffn_hidden = model.ffn_hidden;
  facts.experts = model.moe.experts;
  facts.expert_hidden = model.moe.expert_hidden;
  facts.shared_expert_hidden = model.moe.shared_expert_hidden;
  return facts;
}

std::optional<Rule> mesh_violation(const Facts& f, const Candidate& c) noexcept {
  if (f.devices > rules::kMaxRanks) return Rule::kSize;
  if (std::int64_t{c.dp} * c.tp * c.pp * c.cp != f.devices) return Rule::kDevices;
  if (!rules::family_splits(f.transformer, c.tp, c.pp)) return Rule::kFamily;
  if (!rules::family_takes_context(f.transformer, c.cp)) return Rule::kContextFamily;
  if (!rules::tp_in_domain(c.tp, f.gpus_per_node, f.nvlink_domain)) return Rule::kTpDomain;
  if (f.transformer) {
    if (!rules::heads_split(f.heads, c.tp)) return Rule::kHeads;
    if (!rules::kv_heads_split(f.kv_heads, c.tp)) return Rule::kKvHeads;
    if (!rules::width_splits(f.ffn_hidden, c.tp)) return Rule::kWidths;
    if (!fp8_takes(f, f.hidden, c.tp) || !fp8_takes(f, f.ffn_hidden, c.tp)) return Rule::kFp8;
    if (!rules::expert_tp_divides(f.expert_tp, c.tp)) return Rule::kExpertTp;
    if (!rules::width_splits(f.expert_hidden, f.expert_tp > 0 ? f.expert_tp : c.tp) ||
        !rules::width_splits(f.shared_expert_hidden, c.tp)) {
      return Rule::kExpertWidths;
    }
    if (!rules::context_splits(f.sequence, c.cp, f.causal)) return Rule::kContext;
    if (!rules::layers_fill(f.layers, c.pp, 1)) return Rule::kLayers;
  }
  if (!rules::divides(c.dp, f.global_batch_size)) return Rule::kBatch;
  return std::nullopt;
}

std::optional<Rule> expert_violation(const Facts& f, const Candidate& c) noexcept {
  if (!rules::experts_split(f.experts, c.ep)) return Rule::kExperts;
  if (!rules::expert_ranks_fit(c.dp, c.cp, c.tp, c.ep, f.expert_tp)) return Rule::kExpertRanks;
  return std::nullopt;
}

std::optional<Rule> engine_violation(const Facts& f, const Candidate& c) noexcept {
  if (!rules::shards_equal(c.engine, c.dp, f.hsdp_shard)) return Rule::kShards;
  if (!rules::shards_and_copies(c.engine, c.dp, c.cp, hsdp_shard(f, c))) return Rule::kShardSize;
  if (!rules::offload_shards(f.offload, c.engine, c.dp)) return Rule::kOffload;
  if (!rules::runtime_has_engine(f.runtime, c.engine)) return Rule::kRuntimeEngine;
  if (!rules::runtime_pipes_engine(f.runtime, c.engine, c.pp)) return Rule::kRuntimePipeline;
  return std::nullopt;
}

std::optional<Rule> schedule_violation(const Facts& f, const Candidate& c) noexcept {
  if (!rules::schedule_takes(c.schedule, c.pp, c.vpp)) return Rule::kSchedule;
  if (f.transformer && !rules::layers_fill(f.layers, c.pp, c.vpp)) return Rule::kLayers;
  return std::nullopt;
}

std::optional<Rule> recompute_violation(const Facts& f, const Candidate& c) noexcept {
  if (!f.transformer) return std::nullopt;
  // Stages have these layers or, where the split is uneven, one more.
  const std::int64_t stages = std::int64_t{c.pp} * c.vpp;
  const std::int64_t fewest = f.layers / stages;
  const std::int64_t most = fewest + (rules::divides(stages, f.layers) ? 0 : 1);
  const bool equal = rules::recompute_groups_equal(c.recompute, f.recompute_every, fewest) &&
                     rules::recompute_groups_equal(c.recompute, f.recompute_every, most);
  return equal ? std::nullopt : std::optional(Rule::kRecomputeGroups);
}

std::optional<Rule> sequence_violation(const Facts& f, const Candidate& c) noexcept {
  if (!rules::sequence_parallel_used(c.sequence_parallel, c.tp)) return Rule::kSequenceNoTp;
  if (!rules::sequence_splits(f.sequence, c.cp, c.tp, c.sequence_parallel)) return Rule::kSequence;
  if (!rules::expert_tokens_distinct(c.ep, c.tp, c.sequence_parallel)) return Rule::kExpertTokens;
  return std::nullopt;
}

std::optional<Rule> batch_violation(const Facts& f, const Candidate& c) noexcept {
  if (!rules::batch_divides(f.global_batch_size, c.micro_batch_size, c.dp)) return Rule::kBatch;
  if (!rules::micro_batches_grouped(c.schedule, c.pp, c.micro_batches)) return Rule::kGroups;
  return std::nullopt;
}

std::optional<Rule> first_violation(const Facts& facts, const Candidate& candidate) noexcept {
  for (const auto level : {mesh_violation, expert_violation, engine_violation, schedule_violation,
                           recompute_violation, sequence_violation, batch_violation}) {
    if (const std::optional<Rule> broken = level(facts, candidate)) return broken;
  }
  return std::nullopt;
}

}  // namespace nqd::planner::search
