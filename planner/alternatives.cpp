#include "planner/alternatives.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "planner/memory.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kHintedFixes = 3;
constexpr std::int64_t kMostGrowth = 1024;

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

Config with_recompute(Config config) {
  config.train.recompute = Recompute::kFull;
  return config;
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
