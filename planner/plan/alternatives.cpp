#include "planner/plan/alternatives.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "planner/plan/memory.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kHintedFixes = 3;
constexpr std::int64_t kMostGrowth = 1024;

using Edits = std::vector<std::pair<std::string, std::string>>;

// The edits that lead from one config to the other.
Edits edits_between(const Config& from, const Config& to) {
  Edits edits;
  const auto edit = [&](const std::string& path, std::int64_t value) {
    edits.emplace_back(path, std::to_string(value));
  };
  const ParallelSpec& before = from.parallel;
  const ParallelSpec& after = to.parallel;
  if (after.engine != before.engine) {
    edits.emplace_back("parallel.engine", std::string(name(after.engine)));
  }
  if (to.train.recompute != from.train.recompute) {
    edits.emplace_back("train.recompute", std::string(name(to.train.recompute)));
  }
  if (to.cluster.nodes != from.cluster.nodes) {
    edit("cluster.nodes", to.cluster.nodes);
    // Without a preset it may have been derived from the mesh, which now differs.
    if (to.cluster.preset.empty()) edit("cluster.gpus_per_node", to.cluster.gpus_per_node);
  }
  if (after.tp != before.tp) edit("parallel.tp", after.tp);
  if (after.dp != before.dp) edit("parallel.dp", after.dp);
  if (after.sequence_parallel != before.sequence_parallel) {
    edits.emplace_back("parallel.sequence_parallel", after.sequence_parallel ? "true" : "false");
  }
  // As above: a default would follow the mesh.
  if (after.hsdp_shard > 0 && after.dp != before.dp) {
    edit("parallel.hsdp_shard", after.hsdp_shard);
  }
  if (before.world_size_given && after.world_size != before.world_size) {
    edit("parallel.world_size", *after.world_size);
  }
  if (to.train.micro_batch_size != from.train.micro_batch_size) {
    edit("train.micro_batch_size", to.train.micro_batch_size);
  }
  if (to.train.global_batch_size != from.train.global_batch_size) {
    edit("train.global_batch_size", to.train.global_batch_size);
  }
  return edits;
}

class AlternativeList {
 public:
  explicit AlternativeList(const Config& from) : from_(from) {}

  void add(const Config& config) {
    if (!obeys_rules(config)) return;
    Alternative change{edits_between(from_, config), {}, config, spare_bytes(config)};
    for (const auto& [path, value] : change.edits) {
      change.change += (change.change.empty() ? "" : ", ") + path + ": " + value;
    }
    list_.push_back(std::move(change));
  }
  // Adds the first of the growing changes that fits, else the last.
  void add_first_fitting(std::vector<Config> changes) {
    std::erase_if(changes, [](const Config& config) { return !obeys_rules(config); });
    if (changes.empty()) return;
    const auto fitting = std::find_if(changes.begin(), changes.end(), [](const Config& config) {
      return spare_bytes(config) >= 0;
    });
    add(fitting == changes.end() ? changes.back() : *fitting);
  }
  bool any_fits() const {
    return std::any_of(list_.begin(), list_.end(),
                       [](const Alternative& change) { return change.spare_bytes >= 0; });
  }
  std::vector<Alternative> take() { return std::move(list_); }

 private:
  const Config& from_;
  std::vector<Alternative> list_;
};

void add_sharding(const Config& config, AlternativeList& list) {
  if (config.parallel.dp <= 1 || config.parallel.engine == Engine::kHsdp) return;
  for (Engine engine : {Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    if (engine > config.parallel.engine) list.add(with_engine(config, engine));
  }
}

// Selective only where it keeps less: flash attention has no scores that could be dropped.
void add_recomputation(const Config& config, AlternativeList& list) {
  if (config.train.recompute == Recompute::kNone) {
    const Config selective = with_recompute(config, Recompute::kSelective);
    if (spare_bytes(selective) > spare_bytes(config)) list.add(selective);
  }
  list.add(with_recompute(config, Recompute::kFull));
}

void add_smaller_micro_batch(const Config& config, AlternativeList& list) {
  std::vector<Config> changes;
  for (std::int64_t size = config.train.micro_batch_size / 2; size >= 1; size /= 2) {
    changes.push_back(config);
    changes.back().train.micro_batch_size = size;
  }
  list.add_first_fitting(std::move(changes));
}

void add_tensor_parallel(const Config& config, AlternativeList& list) {
  const ParallelSpec& parallel = config.parallel;
  std::vector<Config> changes;
  for (std::int64_t tp = 2 * parallel.tp; tp <= config.cluster.gpus_per_node; tp *= 2) {
    const std::int64_t replicas = parallel.dp * parallel.tp;
    if (replicas % tp != 0) break;
    changes.push_back(config);
    changes.back().parallel.tp = tp;
    changes.back().parallel.dp = replicas / tp;
    changes.back().parallel.sequence_parallel = true;
  }
  list.add_first_fitting(std::move(changes));
}

void add_more_devices(const Config& config, AlternativeList& list) {
  const Engine engine = config.parallel.engine == Engine::kHsdp ? Engine::kHsdp : Engine::kZero3;
  std::vector<Config> changes;
  for (std::int64_t factor = 2; factor <= kMostGrowth; factor *= 2) {
    Config changed = with_engine(config, engine);
    changed.cluster.nodes *= factor;
    changed.parallel.dp *= factor;
    if (changed.parallel.world_size) changed.parallel.world_size = changed.parallel.ranks();
    if (!obeys_rules(changed)) changed.train.global_batch_size *= factor;
    changes.push_back(std::move(changed));
  }
  list.add_first_fitting(std::move(changes));
}

}  // namespace

bool obeys_rules(const Config& config) { return !has_errors(check_mesh(config)); }

double spare_bytes(const Config& config) {
  const MemoryPlan memory = plan_memory(config);
  return memory.limit_bytes - memory.worst_total_bytes;
}

Config with_engine(Config config, Engine engine) {
  config.parallel.engine = engine;
  if (engine != Engine::kHsdp) config.parallel.hsdp_shard = 0;
  return config;
}

Config with_recompute(Config config, Recompute recompute) {
  config.train.recompute = recompute;
  return config;
}

std::vector<Alternative> alternatives(const Config& config) {
  AlternativeList list(config);
  const bool shaped = config.model.family != "state";
  add_sharding(config, list);
  const bool can_recompute = shaped && config.train.recompute != Recompute::kFull;
  if (can_recompute) add_recomputation(config, list);
  if (shaped) add_smaller_micro_batch(config, list);
  const bool can_shard = config.parallel.dp > 1 && config.parallel.engine < Engine::kZero3;
  if (can_recompute && can_shard && !list.any_fits()) {
    list.add(with_recompute(with_engine(config, Engine::kZero3), Recompute::kFull));
  }
  if (is_transformer(config.model)) add_tensor_parallel(config, list);
  add_more_devices(config, list);
  if (can_recompute) add_more_devices(with_recompute(config, Recompute::kFull), list);
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
  error.related = {
      {{"cluster.memory_bytes", 0, 0}, "memory_bytes = " + format_bytes(memory.limit_bytes)}};
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

}  // namespace nqd::planner
