#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>

#include "planner/fabric.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

using Diagnostics = std::vector<Diagnostic>;

std::string text(std::int64_t value) { return std::to_string(value); }

// A value that a rule judged, for the reader to find; see `locate` in planner/config/config.h.
RelatedPlace value_of(std::string path, const std::string& value) {
  const std::string key = path.substr(path.rfind('.') + 1);
  return {{std::move(path), 0, 0}, key + " = " + value};
}
RelatedPlace value_of(std::string path, std::int64_t value) {
  return value_of(std::move(path), text(value));
}

Diagnostic violation(std::string code, std::string path, std::string message, std::string hint,
                     std::initializer_list<RelatedPlace> related) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.path = std::move(path);
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  diagnostic.related = related;
  return diagnostic;
}

Diagnostic warning(Diagnostic diagnostic) {
  diagnostic.severity = Severity::kWarning;
  return diagnostic;
}

std::string listed(const std::vector<std::int64_t>& values) {
  std::string result;
  for (const std::int64_t value : values) {
    if (!result.empty()) result += ", ";
    result += text(value);
  }
  return result;
}

// Divisors of `value` up to `limit`, at most the eight nearest to `near`, ascending.
std::vector<std::int64_t> divisors(std::int64_t value, std::int64_t limit, std::int64_t near) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= std::min(value, limit); ++d) {
    if (value % d == 0) found.push_back(d);
  }
  std::stable_sort(found.begin(), found.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - near) < std::abs(b - near);
  });
  if (found.size() > 8) found.resize(8);
  std::sort(found.begin(), found.end());
  return found;
}

// "48 or 64": the multiples of `step` around `value`.
std::string nearest_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  return (below > 0 ? text(below) + " or " : "") + text(below + step);
}

bool shaped(const Config& config) { return config.model.family == "gpt"; }

std::string mesh_arithmetic(const ParallelSpec& p) {
  return "dp·tp·pp = " + text(p.dp) + "·" + text(p.tp) + "·" + text(p.pp) + " = " + text(p.ranks());
}

// How to reach `ranks`: the dp that fits, or that none does.
std::string dp_hint(const ParallelSpec& p, std::int64_t ranks) {
  const std::int64_t replica = p.tp * p.pp;
  if (ranks % replica == 0) return "set parallel.dp to " + text(ranks / replica);
  return "no dp fits: tp·pp = " + text(replica) + " does not divide " + text(ranks);
}

constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

void check_size(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (p.ranks() <= kMaxRanks) return;
  out.push_back(violation(
      "NQD1224", "parallel.dp",
      mesh_arithmetic(p) + " is more than the " + text(kMaxRanks) + " ranks that nqd plans for",
      "lower parallel.dp", {value_of("parallel.tp", p.tp), value_of("parallel.pp", p.pp)}));
}

void check_world(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (!p.world_size || *p.world_size == p.ranks()) return;
  out.push_back(violation("NQD1201", "parallel.world_size",
                          mesh_arithmetic(p) + ", but world_size = " + text(*p.world_size),
                          dp_hint(p, *p.world_size),
                          {value_of("parallel.dp", p.dp), value_of("parallel.tp", p.tp),
                           value_of("parallel.pp", p.pp)}));
}

void check_devices(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  // A world_size that disagrees with the mesh is one mistake, not two.
  if (p.world_size && *p.world_size != p.ranks()) return;
  if (p.ranks() == c.cluster.devices()) return;
  out.push_back(violation("NQD1202", "parallel.dp",
                          mesh_arithmetic(p) + ", but the cluster has " + text(c.cluster.nodes) +
                              "·" + text(c.cluster.gpus_per_node) + " = " +
                              text(c.cluster.devices()) + " devices",
                          dp_hint(p, c.cluster.devices()),
                          {value_of("parallel.tp", p.tp), value_of("parallel.pp", p.pp),
                           value_of("parallel.world_size", p.world_size.value_or(p.ranks())),
                           value_of("cluster.nodes", c.cluster.nodes),
                           value_of("cluster.gpus_per_node", c.cluster.gpus_per_node)}));
}

void check_tp_in_node(const Config& c, Diagnostics& out) {
  const std::int64_t tp = c.parallel.tp;
  const std::int64_t gpus = c.cluster.gpus_per_node;
  if (gpus % tp == 0) return;
  out.push_back(violation("NQD1203", "parallel.tp",
                          "tp = " + text(tp) + " does not divide gpus_per_node = " + text(gpus) +
                              ": a tensor-parallel group must lie inside one node",
                          "legal values of tp here: " + listed(divisors(gpus, gpus, tp)),
                          {value_of("cluster.gpus_per_node", gpus)}));
}

void check_heads(const Config& c, Diagnostics& out) {
  const std::int64_t heads = c.model.heads;
  const std::int64_t tp = c.parallel.tp;
  if (!shaped(c) || heads % tp == 0) return;
  out.push_back(violation("NQD1204", "parallel.tp",
                          "heads % tp = " + text(heads) + " % " + text(tp) + " = " +
                              text(heads % tp) + ": every tp rank needs whole heads",
                          "legal values of tp here: " +
                              listed(divisors(std::gcd(heads, c.cluster.gpus_per_node), heads, tp)),
                          {value_of("model.heads", heads)}));
}

void check_head_size(const Config& c, Diagnostics& out) {
  const std::int64_t hidden = c.model.hidden;
  const std::int64_t heads = c.model.heads;
  if (!shaped(c) || heads <= 0 || hidden % heads == 0) return;
  out.push_back(violation("NQD1205", "model.heads",
                          "hidden % heads = " + text(hidden) + " % " + text(heads) + " = " +
                              text(hidden % heads) + ": all heads have the same size",
                          "set model.heads to one of " + listed(divisors(hidden, 4096, heads)) +
                              ", or model.hidden to " + nearest_multiples(hidden, heads),
                          {value_of("model.hidden", hidden)}));
}

void check_layers(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const std::int64_t stages = p.pp * p.vpp;
  if (!shaped(c) || !p.pipeline_split.empty() || c.model.layers % stages == 0) return;
  out.push_back(violation(
      "NQD1206", "parallel.pp",
      "layers % (pp·vpp) = " + text(c.model.layers) + " % (" + text(p.pp) + "·" + text(p.vpp) +
          ") = " + text(c.model.layers % stages) + ": the stages cannot be equal",
      "legal values of pp·vpp: " + listed(divisors(c.model.layers, c.model.layers, stages)) +
          "; or give parallel.pipeline_split",
      {value_of("model.layers", c.model.layers), value_of("parallel.vpp", p.vpp)}));
}

void check_split_length(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const auto entries = static_cast<std::int64_t>(p.pipeline_split.size());
  if (entries == 0 || entries == p.pp * p.vpp) return;
  out.push_back(violation("NQD1207", "parallel.pipeline_split",
                          "pipeline_split has " + text(entries) +
                              " entries, but pp·vpp = " + text(p.pp) + "·" + text(p.vpp) + " = " +
                              text(p.pp * p.vpp) + " stages",
                          "give one number of layers for each stage",
                          {value_of("parallel.pp", p.pp), value_of("parallel.vpp", p.vpp)}));
}

void check_split_sum(const Config& c, Diagnostics& out) {
  const std::vector<std::int64_t>& split = c.parallel.pipeline_split;
  if (!shaped(c) || split.empty()) return;
  const std::int64_t sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  if (sum == c.model.layers) return;
  out.push_back(violation(
      "NQD1208", "parallel.pipeline_split",
      "pipeline_split places " + text(sum) + " layers, but the model has " + text(c.model.layers),
      "make its entries sum to " + text(c.model.layers),
      {value_of("model.layers", c.model.layers)}));
}

void check_batch(const Config& c, Diagnostics& out) {
  const std::int64_t global = c.train.global_batch_size;
  const std::int64_t step = c.train.micro_batch_size * c.parallel.dp;
  if (global % step == 0) return;
  out.push_back(violation(
      "NQD1209", "train.global_batch_size",
      "global_batch_size % (micro_batch_size·dp) = " + text(global) + " % (" +
          text(c.train.micro_batch_size) + "·" + text(c.parallel.dp) + ") = " + text(global % step),
      "the nearest legal global_batch_size is " + nearest_multiples(global, step),
      {value_of("train.micro_batch_size", c.train.micro_batch_size),
       value_of("parallel.dp", c.parallel.dp)}));
}

void check_virtual_stages(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (p.vpp == 1 || p.pp > 1) return;
  out.push_back(
      violation("NQD1210", "parallel.vpp", "vpp = " + text(p.vpp) + " needs a pipeline, but pp = 1",
                "set parallel.vpp to 1, or parallel.pp above 1", {value_of("parallel.pp", p.pp)}));
}

void check_schedule(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const bool interleaved = p.schedule == Schedule::kInterleaved;
  if (interleaved == (p.vpp > 1) || (p.vpp > 1 && p.pp == 1)) return;
  out.push_back(violation(
      "NQD1223", "parallel.schedule",
      interleaved ? "the interleaved schedule needs vpp > 1, but vpp = 1"
                  : "vpp = " + text(p.vpp) + " needs the interleaved schedule, but schedule = " +
                        std::string(name(p.schedule)),
      interleaved ? "set parallel.vpp above 1, or parallel.schedule to 1f1b"
                  : "set parallel.schedule to interleaved, or parallel.vpp to 1",
      {value_of("parallel.vpp", p.vpp), value_of("parallel.pp", p.pp)}));
}

void check_interleaving(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const std::int64_t step = c.train.micro_batch_size * p.dp;
  if (p.schedule != Schedule::kInterleaved || p.vpp == 1 || c.train.global_batch_size % step != 0) {
    return;
  }
  const std::int64_t m = c.micro_batches();
  if (m % p.pp == 0) return;
  out.push_back(violation(
      "NQD1211", "train.global_batch_size",
      "the interleaved schedule needs micro-batches in multiples of pp, but m = " +
          text(c.train.global_batch_size) + "/(" + text(c.train.micro_batch_size) + "·" +
          text(p.dp) + ") = " + text(m) + " and pp = " + text(p.pp),
      "the nearest legal global_batch_size is " +
          nearest_multiples(c.train.global_batch_size, step * p.pp),
      {value_of("train.micro_batch_size", c.train.micro_batch_size), value_of("parallel.dp", p.dp),
       value_of("parallel.pp", p.pp), value_of("parallel.vpp", p.vpp),
       value_of("parallel.schedule", std::string(name(p.schedule)))}));
}

void check_sequence_parallel(const Config& c, Diagnostics& out) {
  if (!c.parallel.sequence_parallel || c.parallel.tp > 1) return;
  out.push_back(violation("NQD1212", "parallel.sequence_parallel",
                          "sequence_parallel needs tp > 1, but tp = 1",
                          "set parallel.sequence_parallel to false, or parallel.tp above 1",
                          {value_of("parallel.tp", c.parallel.tp)}));
}

void check_sequence(const Config& c, Diagnostics& out) {
  const std::int64_t sequence = c.model.sequence;
  const std::int64_t tp = c.parallel.tp;
  if (!shaped(c) || !c.parallel.sequence_parallel || sequence % tp == 0) return;
  out.push_back(violation(
      "NQD1213", "model.sequence",
      "sequence % tp = " + text(sequence) + " % " + text(tp) + " = " + text(sequence % tp) +
          ": sequence_parallel cuts it into tp parts",
      "set model.sequence to " + nearest_multiples(sequence, tp),
      {value_of("parallel.tp", tp), value_of("parallel.sequence_parallel", std::string("true"))}));
}

void check_vocab(const Config& c, Diagnostics& out) {
  const std::int64_t vocab = c.model.vocab;
  const std::int64_t tp = c.parallel.tp;
  // A tp that is illegal for other reasons will change.
  const bool legal_tp = c.model.heads % tp == 0 && c.cluster.gpus_per_node % tp == 0;
  if (!shaped(c) || !legal_tp || vocab % tp == 0) return;
  const std::int64_t padded = (vocab / tp + 1) * tp;
  Diagnostic note = violation("NQD1214", "model.vocab",
                              "vocab = " + text(vocab) + " is padded to " + text(padded) +
                                  ", a multiple of tp = " + text(tp),
                              "set model.vocab to " + text(padded) + " to say so yourself",
                              {value_of("parallel.tp", tp)});
  note.severity = Severity::kNote;
  out.push_back(std::move(note));
}

void check_shard_group(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (p.engine != Engine::kHsdp || p.hsdp_shard == 0 || p.dp % p.hsdp_shard == 0) return;
  out.push_back(
      violation("NQD1215", "parallel.hsdp_shard",
                "dp % hsdp_shard = " + text(p.dp) + " % " + text(p.hsdp_shard) + " = " +
                    text(p.dp % p.hsdp_shard) + ": shard groups must be equal",
                "legal values of hsdp_shard: " + listed(divisors(p.dp, p.dp, p.hsdp_shard)),
                {value_of("parallel.dp", p.dp)}));
}

void check_shard_in_node(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const std::int64_t gpus = c.cluster.gpus_per_node;
  const std::int64_t span = p.hsdp_shard * p.tp * p.pp;
  if (p.engine != Engine::kHsdp || p.hsdp_shard <= ranks_in_node(c.cluster, dp_group(p))) return;
  out.push_back(warning(
      violation("NQD1216", "parallel.hsdp_shard",
                "a shard group spans hsdp_shard·tp·pp = " + text(p.hsdp_shard) + "·" + text(p.tp) +
                    "·" + text(p.pp) + " = " + text(span) + " devices, more than the " +
                    text(gpus) + " of a node: weights are gathered across the network",
                "set parallel.hsdp_shard to " + text(default_hsdp_shard(c.cluster, p)),
                {value_of("parallel.tp", p.tp), value_of("parallel.pp", p.pp),
                 value_of("cluster.gpus_per_node", gpus)})));
}

void check_shard_engine(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (p.engine == Engine::kHsdp || p.hsdp_shard == 0) return;
  out.push_back(
      violation("NQD1217", "parallel.hsdp_shard",
                "hsdp_shard is for engine hsdp, but engine = " + std::string(name(p.engine)),
                "remove parallel.hsdp_shard, or set parallel.engine to hsdp",
                {value_of("parallel.engine", std::string(name(p.engine)))}));
}

void check_engine_pipeline(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const bool sharded =
      p.engine == Engine::kZero2 || p.engine == Engine::kZero3 || p.engine == Engine::kHsdp;
  if (!sharded || p.pp == 1) return;
  out.push_back(warning(
      violation("NQD1218", "parallel.engine",
                std::string(name(p.engine)) +
                    " with pp > 1 repeats its gradient or weight collectives for every micro-batch",
                "zero1 is the usual engine beside a pipeline", {value_of("parallel.pp", p.pp)})));
}

void check_warmup(const Config& c, Diagnostics& out) {
  const std::int64_t warmup = c.train.optimizer.warmup_steps;
  if (warmup <= c.train.steps) return;
  out.push_back(violation("NQD1219", "train.optimizer.warmup_steps",
                          "warmup_steps = " + text(warmup) + " is more than steps = " +
                              text(c.train.steps) + ": the learning rate never reaches its peak",
                          "set train.optimizer.warmup_steps to at most " + text(c.train.steps),
                          {value_of("train.steps", c.train.steps)}));
}

void check_learning_rates(const Config& c, Diagnostics& out) {
  const OptimizerSpec& o = c.train.optimizer;
  if (o.min_learning_rate <= o.learning_rate) return;
  out.push_back(
      violation("NQD1220", "train.optimizer.min_learning_rate",
                "min_learning_rate is above learning_rate: the rate would grow",
                "set train.optimizer.min_learning_rate below learning_rate",
                {{{"train.optimizer.learning_rate", 0, 0}, "learning_rate is set here"}}));
}

void check_state_mesh(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (shaped(c) || (p.tp == 1 && p.pp == 1)) return;
  const std::string path = p.tp > 1 ? "parallel.tp" : "parallel.pp";
  out.push_back(violation("NQD1221", path,
                          "a state model has no heads or layers to split, but tp = " + text(p.tp) +
                              " and pp = " + text(p.pp),
                          "set tp and pp to 1, or give the model's shape (family gpt)",
                          {value_of("parallel.pp", p.pp), value_of("parallel.tp", p.tp),
                           value_of("model.family", c.model.family)}));
}

void check_state_training(const Config& c, Diagnostics& out) {
  if (shaped(c) || c.data.path.empty()) return;
  out.push_back(violation("NQD1222", "data.path",
                          "a state model cannot be trained, but data.path is set",
                          "remove data.path, or give the model's shape (family gpt)",
                          {value_of("model.family", c.model.family)}));
}

constexpr std::array kRules = {
    check_size,           check_world,
    check_devices,        check_tp_in_node,
    check_heads,          check_head_size,
    check_layers,         check_split_length,
    check_split_sum,      check_batch,
    check_virtual_stages, check_schedule,
    check_interleaving,   check_sequence_parallel,
    check_sequence,       check_vocab,
    check_shard_group,    check_shard_in_node,
    check_shard_engine,   check_engine_pipeline,
    check_warmup,         check_learning_rates,
    check_state_mesh,     check_state_training,
};

}  // namespace

std::vector<Diagnostic> check_mesh(const Config& config) {
  Diagnostics violations;
  for (const auto& rule : kRules) rule(config, violations);
  return violations;
}

}  // namespace nqd::planner
