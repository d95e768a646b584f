#include "planner/recommend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include "base/units.h"
#include "planner/fabric.h"
#include "planner/layout.h"
#include "planner/memory.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kHintedFixes = 3;
constexpr double kTinyParameters = 1e7;
constexpr std::int64_t kMostGrowth = 1024;

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

bool obeys_rules(const Config& config) { return !has_errors(check_mesh(config)); }

double spare_bytes(const Config& config) {
  const MemoryPlan memory = plan_memory(config);
  return memory.limit_bytes - memory.worst_total_bytes;
}

// Keeps a changed mesh whole: world size follows it, and the batch is rounded up to a whole number
// of micro-batches for every replica.
Config with_mesh(Config config, std::int64_t dp, std::int64_t tp, std::int64_t pp) {
  ParallelSpec& parallel = config.parallel;
  parallel.dp = dp;
  parallel.tp = tp;
  parallel.pp = pp;
  parallel.vpp = 1;
  parallel.schedule = Schedule::k1F1B;
  parallel.pipeline_split.clear();
  parallel.hsdp_shard = 0;
  if (tp == 1) parallel.sequence_parallel = false;
  if (parallel.world_size) parallel.world_size = parallel.ranks();
  const std::int64_t replicas = config.train.micro_batch_size * dp;
  const std::int64_t m =
      std::max<std::int64_t>(1, (config.train.global_batch_size + replicas - 1) / replicas);
  config.train.global_batch_size = m * replicas;
  return config;
}

Config with_engine(Config config, Engine engine) {
  config.parallel.engine = engine;
  if (engine != Engine::kHsdp) config.parallel.hsdp_shard = 0;
  return config;
}

Config with_recompute(Config config) {
  config.train.recompute = Recompute::kFull;
  return config;
}

class AlternativeList {
 public:
  void add(const std::string& change, const Config& config) {
    if (obeys_rules(config)) list_.push_back({change, config, spare_bytes(config)});
  }
  // Adds the first of the growing changes that fits, else the last.
  void add_first_fitting(const std::vector<std::pair<std::string, Config>>& changes) {
    for (const auto& [change, config] : changes) {
      if (!obeys_rules(config)) continue;
      if (spare_bytes(config) < 0 && &config != &changes.back().second) continue;
      return add(change, config);
    }
  }
  bool any_fits() const {
    return std::any_of(list_.begin(), list_.end(),
                       [](const Alternative& change) { return change.spare_bytes >= 0; });
  }
  std::vector<Alternative> take() { return std::move(list_); }

 private:
  std::vector<Alternative> list_;
};

void add_sharding(const Config& config, AlternativeList& list) {
  if (config.parallel.dp <= 1 || config.parallel.engine == Engine::kHsdp) return;
  for (Engine engine : {Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    if (engine <= config.parallel.engine) continue;
    list.add("parallel.engine: " + std::string(name(engine)), with_engine(config, engine));
  }
}

void add_smaller_micro_batch(const Config& config, AlternativeList& list) {
  std::vector<std::pair<std::string, Config>> changes;
  for (std::int64_t size = config.train.micro_batch_size / 2; size >= 1; size /= 2) {
    Config changed = config;
    changed.train.micro_batch_size = size;
    changes.emplace_back("train.micro_batch_size: " + std::to_string(size), changed);
  }
  list.add_first_fitting(changes);
}

void add_tensor_parallel(const Config& config, AlternativeList& list) {
  const ParallelSpec& parallel = config.parallel;
  std::vector<std::pair<std::string, Config>> changes;
  for (std::int64_t tp = 2 * parallel.tp; tp <= config.cluster.gpus_per_node; tp *= 2) {
    const std::int64_t replicas = parallel.dp * parallel.tp;
    if (replicas % tp != 0) break;
    Config changed = config;
    changed.parallel.tp = tp;
    changed.parallel.dp = replicas / tp;
    changed.parallel.sequence_parallel = true;
    changes.emplace_back("parallel: {tp: " + std::to_string(tp) + ", dp: " +
                             std::to_string(replicas / tp) + ", sequence_parallel: true}",
                         changed);
  }
  list.add_first_fitting(changes);
}

void add_more_devices(const Config& config, AlternativeList& list) {
  const Engine engine = config.parallel.engine == Engine::kHsdp ? Engine::kHsdp : Engine::kZero3;
  std::vector<std::pair<std::string, Config>> changes;
  for (std::int64_t factor = 2; factor <= kMostGrowth; factor *= 2) {
    Config changed = with_engine(config, engine);
    changed.cluster.nodes *= factor;
    changed.parallel.dp *= factor;
    if (changed.parallel.world_size) changed.parallel.world_size = changed.parallel.ranks();
    changed.train.global_batch_size *= factor;
    changes.emplace_back("parallel.engine: " + std::string(name(engine)) + " on " +
                             std::to_string(changed.cluster.nodes) +
                             " nodes (parallel.dp: " + std::to_string(changed.parallel.dp) + ")",
                         changed);
  }
  list.add_first_fitting(changes);
}

// "4" of "4Φ"; nothing for 0.
std::string term(double bytes, std::int64_t ranks) {
  if (bytes == 0) return {};
  return number(bytes) + "Φ" + (ranks > 1 ? "/" + std::to_string(ranks) : "");
}

// What a rung of the posture is called, and its config.
struct Rung {
  std::string label;
  Config config;
};

// The default posture, lightest first, on the devices that the config has.
std::vector<Rung> ladder(const Config& config) {
  const std::int64_t devices = config.parallel.ranks();
  const std::int64_t node = std::min(config.cluster.gpus_per_node, devices);
  const Config flat = with_mesh(config, devices, 1, 1);
  Config base = flat;
  base.train.recompute = Recompute::kNone;
  const bool several_nodes = !inside_node(config.cluster, dp_group(base.parallel));
  std::vector<Rung> rungs = {{"ddp", with_engine(base, Engine::kDdp)}};
  const bool gpt = config.model.family == "gpt";
  if (gpt) rungs.push_back({"ddp with recompute: full", with_recompute(rungs[0].config)});
  const auto add = [&](const Config& on, const std::string& tail) {
    if (devices <= 1) return;
    for (Engine engine : {Engine::kZero1, Engine::kZero2}) {
      rungs.push_back({std::string(name(engine)) + tail, with_engine(on, engine)});
    }
    if (several_nodes) rungs.push_back({"hsdp" + tail, with_engine(on, Engine::kHsdp)});
    rungs.push_back({"zero3" + tail, with_engine(on, Engine::kZero3)});
  };
  add(base, "");
  if (!gpt) return rungs;
  add(with_recompute(base), " with recompute: full");
  Config split =
      with_recompute(with_mesh(config, devices / std::max<std::int64_t>(node, 1), node, 1));
  split.parallel.sequence_parallel = node > 1;
  const std::string tp = "tp " + std::to_string(node);
  rungs.push_back({tp + " in the node + zero3 across", with_engine(split, Engine::kZero3)});
  for (std::int64_t pp = 2; node * pp <= devices; pp *= 2) {
    if (devices % (node * pp) != 0) break;
    Config piped = with_recompute(with_mesh(config, devices / (node * pp), node, pp));
    piped.parallel.sequence_parallel = node > 1;
    rungs.push_back(
        {tp + " + pp " + std::to_string(pp) + " + zero1", with_engine(piped, Engine::kZero1)});
  }
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

std::optional<Rung> first_fitting(const Config& config) {
  for (const Rung& rung : ladder(config)) {
    if (!obeys_rules(rung.config) || !worth_trying(rung, config.cluster.memory_bytes)) continue;
    if (spare_bytes(rung.config) >= 0) return rung;
  }
  return std::nullopt;
}

bool same_layout(const Config& a, const Config& b) {
  return a.parallel.engine == b.parallel.engine && a.parallel.dp == b.parallel.dp &&
         a.parallel.tp == b.parallel.tp && a.parallel.pp == b.parallel.pp &&
         a.train.recompute == b.train.recompute;
}

std::string arithmetic(const Config& config) {
  const std::string what = config.model.family == "gpt" ? " + activations and buffers"
                                                        : " + buckets, without activations,";
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
  std::vector<std::int64_t> counts = {fewest, whole_nodes, whole_nodes + node, power};
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::string devices;
  std::string left;
  for (std::int64_t count : counts) {
    const std::string comma = devices.empty() ? "" : ", ";
    devices += comma + std::to_string(count);
    left += comma + decimal_gb(limit - state * parameters / static_cast<double>(count));
  }
  return "zero3 needs at least " + std::to_string(fewest) + " devices for the state alone (" +
         number(state) + "Φ = " + format_bytes(state * parameters) + "); " + devices +
         " devices leave " + left + " GB each for activations";
}

std::string why_not_ddp(const Config& config) {
  Config ddp = with_engine(with_mesh(config, config.parallel.ranks(), 1, 1), Engine::kDdp);
  ddp.train.recompute = Recompute::kNone;
  return "ddp would need " + format_bytes(plan_memory(ddp).worst_total_bytes);
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
  count(bytes.master + bytes.moments + bytes.ema, shards.optimizer);
  const std::string left = term(whole, 1);
  const std::string right = term(sharded, shards.optimizer);
  return left + (left.empty() || right.empty() ? "" : " + ") + right;
}

std::vector<Alternative> alternatives(const Config& config) {
  AlternativeList list;
  const bool gpt = config.model.family == "gpt";
  add_sharding(config, list);
  const bool can_recompute = gpt && config.train.recompute == Recompute::kNone;
  if (can_recompute) list.add("train.recompute: full", with_recompute(config));
  if (gpt) add_smaller_micro_batch(config, list);
  if (can_recompute && config.parallel.dp > 1 && !list.any_fits()) {
    list.add("parallel.engine: zero3 with train.recompute: full",
             with_recompute(with_engine(config, Engine::kZero3)));
  }
  if (gpt) add_tensor_parallel(config, list);
  add_more_devices(config, list);
  return list.take();
}

std::vector<Diagnostic> check_fit(const Config& config, const MemoryPlan& memory) {
  if (memory.fits) return {};
  const StageMemory& worst = worst_stage(memory);
  const std::string dominant = dominant_category(worst);
  Diagnostic error;
  error.code = "NQD1301";
  error.path = "parallel.engine";
  error.message = "a rank of stage " + std::to_string(worst.stage) + " needs " +
                  format_bytes(worst.total_bytes) + ", " +
                  format_bytes(worst.total_bytes - memory.limit_bytes) +
                  " more than a device has; the largest part is " + dominant + " (" +
                  format_bytes(worst.categories.at(dominant)) + ")";
  error.expected = "at most " + format_bytes(memory.limit_bytes);
  error.got = format_bytes(worst.total_bytes);
  std::size_t shown = 0;
  const std::vector<Alternative> all = alternatives(config);
  for (const Alternative& fix : all) {
    if (fix.spare_bytes < 0 || shown == kHintedFixes) continue;
    error.hint += (shown++ > 0 ? "; " : "") + fix.change + " fits with " +
                  format_bytes_binary(fix.spare_bytes) + " to spare";
  }
  if (shown == 0 && !all.empty()) {
    const Alternative& nearest = *std::max_element(
        all.begin(), all.end(),
        [](const Alternative& a, const Alternative& b) { return a.spare_bytes < b.spare_bytes; });
    error.hint = "no single change that was tried fits; the nearest, " + nearest.change +
                 ", still lacks " + format_bytes_binary(-nearest.spare_bytes);
  }
  return {error};
}

std::string recommend(const Config& config, const MemoryPlan& memory) {
  const auto parameters = static_cast<double>(parameter_count(config.model));
  if (memory.limit_bytes <= 0) {
    return "by size alone, the device's memory being unknown: " + by_size(parameters) + " (" +
           arithmetic(config) + ")";
  }
  const std::string limit = format_bytes(memory.limit_bytes);
  const std::optional<Rung> rung = first_fitting(config);
  if (!rung) {
    const bool state = config.model.family != "gpt";
    return "no layout of " + std::to_string(config.parallel.ranks()) + " devices of " + limit +
           " fits: " + why_not_ddp(config) + "; " +
           (state ? "" : by_size(parameters) + " is the usual choice at this size; ") +
           state_headroom(config, parameters);
  }
  const bool ddp = rung->config.parallel.engine == Engine::kDdp;
  const bool chosen = same_layout(config, rung->config);
  std::string text =
      (chosen ? "" : "use ") + rung->label + ": " + arithmetic(rung->config) + " fits " + limit;
  if (ddp && rung->config.train.recompute == Recompute::kNone) text += "; nothing to shard";
  if (!ddp) text += ", where " + why_not_ddp(config);
  if (!chosen && memory.fits) text += "; this plan fits too, but saves memory that is not needed";
  if (parameters < kTinyParameters && ddp) {
    text += "; at " + format_short(parameters) +
            " parameters no model parallelism pays: the data path decides the throughput";
  }
  return text;
}

}  // namespace nqd::planner
