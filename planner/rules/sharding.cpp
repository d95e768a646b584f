// Engines: shard groups, what runs beside a pipeline, what each runtime has.
#include <array>
#include <vector>

#include "planner/mesh/fabric.h"
#include "planner/rules/legality.h"
#include "planner/rules/rule.h"

namespace nqd::planner::rules {
namespace {

std::string engine_of(const ParallelSpec& p) { return std::string(name(p.engine)); }

// Shard groups of several ranks, and several of them, near the one that is given; those inside a
// node where there are any.
std::vector<std::int64_t> legal_shards(const Config& c, std::int64_t given) {
  const ParallelSpec& p = c.parallel;
  std::vector<std::int64_t> legal = divisors(p.dp, p.dp - 1, given);
  if (p.cp == 1) std::erase(legal, 1);
  std::vector<std::int64_t> inside = legal;
  std::erase_if(inside,
                [&](std::int64_t shard) { return shard > ranks_in_node(c.cluster, dp_group(p)); });
  return inside.empty() ? legal : inside;
}

void check_shard_group(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (shards_equal(p.engine, p.dp, p.hsdp_shard)) return;
  const std::vector<std::int64_t> legal = legal_shards(c, p.hsdp_shard);
  out.push_back(violation(
      "NQD1215", "parallel.hsdp_shard",
      remainder({"dp", p.dp}, {"hsdp_shard", p.hsdp_shard}) + ": shard groups must be equal",
      legal.empty() ? "set parallel.engine to zero3, and parallel.hsdp_shard to 0"
                    : "legal values of hsdp_shard: " + listed(legal),
      {value_of("parallel.dp", p.dp)}));
}

void check_shard_size(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (!shards_equal(p.engine, p.dp, p.hsdp_shard)) return;
  const std::int64_t shard = p.hsdp_shard > 0 ? p.hsdp_shard : default_hsdp_shard(c.cluster, p);
  if (shards_and_copies(p.engine, p.dp, p.cp, shard)) return;
  const std::string given = p.hsdp_shard > 0 ? "" : ", the ranks of dp in one node,";
  const bool one_group = shard == p.dp;
  const std::string what = one_group ? "leaves one shard group, without copies: that is zero3"
                                     : "shards nothing: that is ddp";
  std::string hint =
      one_group && p.dp > 1 ? "set parallel.engine to zero3" : "set parallel.engine to ddp";
  const std::vector<std::int64_t> legal = legal_shards(c, shard);
  if (!legal.empty()) hint += ", or parallel.hsdp_shard to one of " + listed(legal);
  out.push_back(
      violation("NQD1262", p.hsdp_shard > 0 ? "parallel.hsdp_shard" : "parallel.engine",
                "hsdp_shard = " + text(shard) + given + " of dp = " + text(p.dp) + " " + what, hint,
                {value_of("parallel.dp", p.dp)}));
}

void check_shard_in_node(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (p.engine != Engine::kHsdp || p.hsdp_shard <= ranks_in_node(c.cluster, dp_group(p))) return;
  std::vector<Factor> span = {{"hsdp_shard", p.hsdp_shard}, {"tp", p.tp}};
  if (p.cp > 1) span.push_back({"cp", p.cp});
  if (p.order == MeshOrder::kPpThenDp) span.push_back({"pp", p.pp});
  const std::int64_t gpus = tp_domain(c.cluster.gpus_per_node, c.cluster.nvlink_domain);
  out.push_back(
      warning(violation("NQD1216", "parallel.hsdp_shard",
                        "a shard group spans " + product(span) + " devices, more than the " +
                            text(gpus) + " of a node: weights are gathered across the network",
                        "set parallel.hsdp_shard to " + text(default_hsdp_shard(c.cluster, p)),
                        {value_of("parallel.tp", p.tp), value_of("parallel.pp", p.pp),
                         value_of("cluster.gpus_per_node", c.cluster.gpus_per_node)})));
}

void check_shard_engine(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (p.engine == Engine::kHsdp || p.hsdp_shard == 0) return;
  out.push_back(violation("NQD1217", "parallel.hsdp_shard",
                          "hsdp_shard is for engine hsdp, but engine = " + engine_of(p),
                          "set parallel.engine to hsdp, or parallel.hsdp_shard to 0",
                          {value_of("parallel.engine", engine_of(p))}));
}

void check_engine_pipeline(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const bool sharded =
      p.engine == Engine::kZero2 || p.engine == Engine::kZero3 || p.engine == Engine::kHsdp;
  if (!sharded || p.pp == 1 || !runtime_pipes_engine(c.train.runtime, p.engine, p.pp)) return;
  out.push_back(warning(
      violation("NQD1218", "parallel.engine",
                engine_of(p) +
                    " with pp > 1 repeats its gradient or weight collectives for every micro-batch",
                "zero1 is the usual engine beside a pipeline", {value_of("parallel.pp", p.pp)})));
}

void check_runtime_engine(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (runtime_has_engine(c.train.runtime, p.engine)) return;
  out.push_back(
      violation("NQD1249", "parallel.engine",
                "the fsdp2 runtime shards gradients and weights, but engine = " + engine_of(p),
                "set parallel.engine to zero2, zero3 or hsdp, or train.runtime to nqd",
                {value_of("train.runtime", std::string(name(c.train.runtime)))}));
}

void check_runtime_pipeline(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (runtime_pipes_engine(c.train.runtime, p.engine, p.pp)) return;
  out.push_back(violation("NQD1250", "parallel.engine",
                          "DeepSpeed's pipeline takes ddp or zero1, but engine = " + engine_of(p) +
                              " and pp = " + text(p.pp),
                          "set parallel.engine to zero1, or parallel.pp to 1",
                          {value_of("parallel.pp", p.pp),
                           value_of("train.runtime", std::string(name(c.train.runtime)))}));
}

void check_offload(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (offload_shards(c.train.optimizer.offload, p.engine, p.dp)) return;
  out.push_back(
      violation("NQD1248", "train.optimizer.offload",
                "under ddp the " + text(p.dp) +
                    " replicas would each keep a whole copy of the optimizer's state in "
                    "host memory",
                "set parallel.engine to zero1, zero2 or zero3, or train.optimizer.offload to false",
                {value_of("parallel.engine", engine_of(p)), value_of("parallel.dp", p.dp)}));
}

constexpr std::array<Check, 8> kChecks = {
    check_shard_group,     check_shard_size,     check_shard_in_node,    check_shard_engine,
    check_engine_pipeline, check_runtime_engine, check_runtime_pipeline, check_offload,
};

}  // namespace

std::span<const Check> sharding_checks() { return kChecks; }

}  // namespace nqd::planner::rules
