#include "planner/plan/recommend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/units.h"
#include "planner/layout/layout.h"
#include "planner/mesh/fabric.h"
#include "planner/plan/alternatives.h"
#include "planner/plan/communication.h"
#include "planner/plan/memory.h"
#include "planner/plan/pipeline.h"
#include "planner/plan/time.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

constexpr double kTinyParameters = 1e7;
constexpr double kSplitFirst = 100e9;
constexpr double kClearlyFaster = 1.1;

std::string number(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%g", value);
  return buffer.data();
}

std::string decimal_gb(double bytes) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f", bytes / kGB);
  return buffer.data();
}

// A changed mesh of the same job: the global batch stays, and the micro-batch shrinks where more
// replicas share it. (A batch that does not divide breaks a rule, and the mesh is passed over.)
Config with_mesh(Config config, std::int64_t dp, std::int64_t tp, std::int64_t pp) {
  ParallelSpec& parallel = config.parallel;
  parallel.dp = dp;
  parallel.tp = tp;
  parallel.pp = pp;
  parallel.cp = 1;
  parallel.vpp = 1;
  parallel.schedule = Schedule::k1F1B;
  parallel.pipeline_split.clear();
  parallel.hsdp_shard = 0;
  parallel.sequence_parallel = tp > 1 && config.model.sequence % tp == 0;
  std::int64_t& size = config.train.micro_batch_size;
  while (size > 1 && config.train.global_batch_size % (size * dp) != 0) --size;
  return config;
}

// "4Φ/64" of 4 bytes over 64 ranks; nothing for 0.
std::string term(double bytes, std::int64_t ranks) {
  if (bytes == 0) return {};
  return number(bytes) + "Φ" + (ranks > 1 ? "/" + std::to_string(ranks) : "");
}

// What a rung of the posture is called, and its config.
struct Rung {
  std::string label;
  Config config;
};

Config recomputing(Config config) { return with_recompute(std::move(config), Recompute::kFull); }

void add_sharded_rungs(const Config& on, const std::string& tail, std::vector<Rung>& rungs) {
  if (on.parallel.dp <= 1) return;
  for (Engine engine : {Engine::kZero1, Engine::kZero2}) {
    rungs.push_back({std::string(name(engine)) + tail, with_engine(on, engine)});
  }
  if (!inside_node(on.cluster, dp_group(on.parallel))) {
    rungs.push_back({"hsdp" + tail, with_engine(on, Engine::kHsdp)});
  }
  rungs.push_back({"zero3" + tail, with_engine(on, Engine::kZero3)});
}

// tp fills a node; what it leaves of the devices goes to dp and pp.
std::vector<Rung> split_rungs(const Config& config) {
  const std::int64_t devices = config.parallel.ranks();
  const std::int64_t node = std::min(config.cluster.gpus_per_node, devices);
  const std::string tp = "tp " + std::to_string(node) + " in the node";
  std::vector<Rung> rungs;
  if (devices % node != 0) return rungs;
  const Config split = recomputing(with_mesh(config, devices / node, node, 1));
  if (split.parallel.dp > 1) {
    rungs.push_back({tp + " + zero1 across", with_engine(split, Engine::kZero1)});
  } else {
    rungs.push_back({tp + " with recompute: full", with_engine(split, Engine::kDdp)});
  }
  for (std::int64_t pp = 2; node * pp <= devices; pp *= 2) {
    if (devices % (node * pp) != 0) break;
    const Config piped = recomputing(with_mesh(config, devices / (node * pp), node, pp));
    rungs.push_back(
        {tp + " + pp " + std::to_string(pp) + " + zero1", with_engine(piped, Engine::kZero1)});
  }
  if (split.parallel.dp > 1) {
    rungs.push_back({tp + " + zero3 across", with_engine(split, Engine::kZero3)});
  }
  return rungs;
}

// The default posture on the devices that the config has, first choice first. Above 100e9
// parameters the model is split before its weights are gathered across nodes.
std::vector<Rung> ladder(const Config& config) {
  Config flat = with_mesh(config, config.parallel.ranks(), 1, 1);
  flat.train.recompute = Recompute::kNone;
  std::vector<Rung> rungs = {{"ddp", with_engine(flat, Engine::kDdp)}};
  if (config.model.family == "state") {
    add_sharded_rungs(flat, "", rungs);
    return rungs;
  }
  rungs.push_back({"ddp with recompute: full", recomputing(rungs[0].config)});
  std::vector<Rung> sharded;
  add_sharded_rungs(flat, "", sharded);
  add_sharded_rungs(recomputing(flat), " with recompute: full", sharded);
  std::vector<Rung> split;
  if (is_transformer(config.model)) split = split_rungs(config);
  const bool split_first = static_cast<double>(parameter_count(config.model)) > kSplitFirst;
  if (split_first) sharded.swap(split);
  rungs.insert(rungs.end(), sharded.begin(), sharded.end());
  rungs.insert(rungs.end(), split.begin(), split.end());
  return rungs;
}

// Recomputation under ddp only helps when activations, and not the state, are what is too large.
bool worth_trying(const Rung& rung, double limit) {
  if (rung.config.parallel.engine != Engine::kDdp ||
      rung.config.train.recompute == Recompute::kNone) {
    return true;
  }
  return worst_stage(plan_memory(rung.config)).persistent_bytes <= limit / 2;
}

// 0 = unknown.
double tokens_per_s(const Config& config) {
  const ComputePlan compute = plan_compute(config);
  const CommunicationPlan communication = plan_communication(config, compute.micro_batch);
  return plan_time(config, compute, communication).tokens_per_s;
}

// Where the network between nodes binds what zero2 or zero3 exchange, hsdp keeps most of it inside
// nodes: taken instead when it fits and is clearly faster.
Rung faster_hybrid(const std::vector<Rung>& rungs, const Rung& chosen, double headroom) {
  const Engine engine = chosen.config.parallel.engine;
  if (engine != Engine::kZero2 && engine != Engine::kZero3) return chosen;
  for (const Rung& rung : rungs) {
    if (rung.config.parallel.engine != Engine::kHsdp || !obeys_rules(rung.config)) continue;
    if (rung.config.parallel.tp != chosen.config.parallel.tp) continue;
    if (spare_bytes(rung.config) < headroom) continue;
    if (tokens_per_s(rung.config) > kClearlyFaster * tokens_per_s(chosen.config)) return rung;
  }
  return chosen;
}

// With headroom if there is such a rung.
std::optional<Rung> first_fitting(const Config& config) {
  const double limit = config.cluster.memory_bytes;
  const std::vector<Rung> rungs = ladder(config);
  for (double headroom : {kHeadroomFraction * limit, 0.0}) {
    for (const Rung& rung : rungs) {
      if (!obeys_rules(rung.config) || !worth_trying(rung, limit)) continue;
      if (spare_bytes(rung.config) >= headroom) return faster_hybrid(rungs, rung, headroom);
    }
  }
  return std::nullopt;
}

bool same_layout(const Config& a, const Config& b) {
  return a.parallel.engine == b.parallel.engine && a.parallel.dp == b.parallel.dp &&
         a.parallel.tp == b.parallel.tp && a.parallel.pp == b.parallel.pp &&
         a.parallel.cp == b.parallel.cp && a.train.recompute == b.train.recompute;
}

std::string arithmetic(const Config& config) {
  const std::string what = config.model.family == "state" ? " + buckets, without activations,"
                                                          : " + activations and buffers";
  return state_formula(config) + what + " = " + format_bytes(plan_memory(config).worst_total_bytes);
}

std::string by_size(double parameters) {
  if (parameters < 7e9) return "ddp, or zero1 when 16Φ does not fit";
  if (parameters < 20e9) return "zero2 or zero3 on one or two nodes";
  if (parameters <= 100e9) return "zero3 with recomputation, or tp 8 in the node + hsdp across";
  return "tp 8 + pp 8 + dp with zero1";
}

// What is left for activations as devices are added, where the state alone needs several.
std::string state_headroom(const Config& config, double parameters) {
  const double state = state_bytes(config.train).total();
  const double limit = config.cluster.memory_bytes;
  const std::int64_t fewest = min_ranks_for_state(parameters, state, limit);
  const std::int64_t node = std::max<std::int64_t>(config.cluster.gpus_per_node, 1);
  const std::int64_t whole_nodes = (fewest + node - 1) / node * node;
  std::int64_t power = 1;
  while (power <= whole_nodes + node) power *= 2;
  std::string devices;
  std::string left;
  std::int64_t before = 0;
  for (const std::int64_t count : {fewest, whole_nodes, whole_nodes + node, power}) {
    if (count == before) continue;
    before = count;
    const std::string comma = devices.empty() ? "" : ", ";
    devices += comma + std::to_string(count);
    left += comma + decimal_gb(limit - state * parameters / static_cast<double>(count));
  }
  return "zero3 needs at least " + std::to_string(fewest) + " devices for the state alone (" +
         number(state) + "Φ = " + format_bytes(state * parameters) + "); " + devices +
         " devices leave " + left + " GB each for activations";
}

// Empty when ddp would fit (and something else, such as the batch, speaks against it).
std::string why_not_ddp(const Config& config) {
  Config ddp = with_engine(with_mesh(config, config.parallel.ranks(), 1, 1), Engine::kDdp);
  ddp.train.recompute = Recompute::kNone;
  const MemoryPlan memory = plan_memory(ddp);
  return memory.fits ? "" : ", where ddp would need " + format_bytes(memory.worst_total_bytes);
}

std::string rate_text(double tokens) {
  return format_count(static_cast<std::uint64_t>(std::llround(tokens))) + " tokens/s";
}

std::string layout_text(const Config& config) {
  const ParallelSpec& mesh = config.parallel;
  std::string text(name(mesh.engine));
  if (mesh.tp > 1) text += " + tp " + std::to_string(mesh.tp);
  if (mesh.pp > 1) text += " + pp " + std::to_string(mesh.pp);
  if (config.train.recompute == Recompute::kFull) text += " with recompute: full";
  return text;
}

std::string tiny_text(double parameters) {
  if (parameters >= kTinyParameters) return {};
  return "; at " + format_short(parameters) +
         " parameters no model parallelism pays: the data path decides the throughput";
}

// The posture's rung, and why.
std::string rung_text(const Rung& rung, const std::string& limit) {
  const bool ddp = rung.config.parallel.engine == Engine::kDdp;
  std::string text = rung.label + ": " + arithmetic(rung.config) + " fits " + limit;
  if (!ddp || rung.config.parallel.tp > 1) return text + why_not_ddp(rung.config);
  if (rung.config.train.recompute == Recompute::kNone) text += "; nothing to shard";
  return text + tiny_text(static_cast<double>(parameter_count(rung.config.model)));
}

// A plan that fits is set against the posture's by predicted throughput: the posture is a default,
// which a plan must beat by more than the prediction is worth.
std::string compared_text(const Config& config, const Rung& rung, const std::string& limit) {
  const double here = tokens_per_s(config);
  const double there = tokens_per_s(rung.config);
  if (here <= 0 || there <= 0) {
    return "use " + rung_text(rung, limit) + "; this plan fits too, but splits more than it must";
  }
  if (here > kClearlyFaster * there) {
    return layout_text(config) + ": " + arithmetic(config) + " fits " + limit + ", at " +
           rate_text(here) + "; " + rung.label + " would fit too, at " + rate_text(there);
  }
  if (there > kClearlyFaster * here) {
    return "use " + rung_text(rung, limit) + "; at " + rate_text(there) + " against " +
           rate_text(here) + " of this plan, which fits too";
  }
  return "use " + rung_text(rung, limit) +
         "; this plan fits too, but splits more than it must at " + "much the same speed (" +
         rate_text(here) + " against " + rate_text(there) + ")";
}

std::string nothing_fits_text(const Config& config, const std::string& limit) {
  std::optional<std::pair<std::string, double>> smallest;
  for (const Rung& rung : ladder(config)) {
    if (!obeys_rules(rung.config)) continue;
    const double bytes = plan_memory(rung.config).worst_total_bytes;
    if (!smallest || bytes < smallest->second) smallest = {rung.label, bytes};
  }
  std::string text =
      "no layout of " + std::to_string(config.parallel.ranks()) + " devices of " + limit + " fits";
  if (smallest)
    text +=
        " (the smallest, " + smallest->first + ", needs " + format_bytes(smallest->second) + ")";
  const auto parameters = static_cast<double>(parameter_count(config.model));
  return text + "; " + state_headroom(config, parameters);
}

}  // namespace

std::string state_formula(const Config& config) {
  const StateBytes bytes = state_bytes(config.train);
  const ShardCounts shards = shard_counts(config);
  double whole = 0;
  double sharded = 0;
  const auto count = [&](double size, std::int64_t ranks) {
    (ranks > 1 ? sharded : whole) += size;
  };
  count(bytes.weights, shards.weights);
  count(bytes.gradients, shards.gradients);
  count(bytes.gradients_of_optimizer + bytes.master + bytes.moments + bytes.ema, shards.optimizer);
  // Splitting the model divides everything, replicated tensors and the ends' vocabulary apart.
  const std::int64_t parts = config.parallel.tp * config.parallel.pp;
  const std::string left = term(whole, parts);
  const std::string right = term(sharded, parts * shards.optimizer);
  return left + (left.empty() || right.empty() ? "" : " + ") + right;
}

std::string recommend(const Config& config, const MemoryPlan& memory) {
  const auto parameters = static_cast<double>(parameter_count(config.model));
  if (memory.limit_bytes <= 0) {
    return "by size alone, the device's memory being unknown: " + by_size(parameters) + " (" +
           arithmetic(config) + ")" + tiny_text(parameters);
  }
  const std::string limit = format_bytes(memory.limit_bytes);
  const std::optional<Rung> rung = first_fitting(config);
  if (!rung && memory.fits) {
    return layout_text(config) + ": " + arithmetic(config) + " fits " + limit +
           "; no default layout of these devices divides the global batch and fits";
  }
  if (!rung) return nothing_fits_text(config, limit);
  if (same_layout(config, rung->config)) return rung_text(*rung, limit);
  if (!memory.fits) return "use " + rung_text(*rung, limit);
  return compared_text(config, *rung, limit);
}

}  // namespace nqd::planner
