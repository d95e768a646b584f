#include "planner/search/plan_config.h"

#include <utility>

#include "planner/planner.h"
#include "planner/search/search.h"

namespace nqd::planner::search {
namespace {

bool is_mesh_rule(const Diagnostic& diagnostic) { return diagnostic.code.starts_with("NQD12"); }

// Data parallelism alone, with an engine that every runtime has.
Config plainest(const Config& config) {
  Candidate candidate;
  candidate.dp = static_cast<std::int32_t>(config.cluster.devices());
  candidate.engine = Engine::kZero3;
  return config_of(config, candidate);
}

std::string split_text(const std::vector<std::int64_t>& split) {
  std::string text = "[";
  for (const std::int64_t layers : split) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(layers);
  }
  return text + "]";
}

}  // namespace

std::vector<Diagnostic> lasting_findings(const LoadedConfig& loaded) {
  std::vector<Diagnostic> findings;
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    if (!is_mesh_rule(diagnostic)) findings.push_back(diagnostic);
  }
  if (has_errors(findings)) return findings;
  for (Diagnostic& diagnostic : check_mesh(plainest(start_of(loaded)))) {
    if (diagnostic.severity != Severity::kError) continue;
    locate(diagnostic, loaded, loaded.text);
    findings.push_back(std::move(diagnostic));
  }
  sort_by_place(findings);
  return findings;
}

Config start_of(const LoadedConfig& loaded) {
  Config config = loaded.config;
  for (const ResolvedValue& value : loaded.resolved) {
    if (value.path == "parallel.hsdp_shard" && value.origin.starts_with("derived")) {
      config.parallel.hsdp_shard = 0;
    }
  }
  return config;
}

std::vector<std::string> plan_overrides(const Config& planned) {
  const ParallelSpec& mesh = planned.parallel;
  const TrainSpec& train = planned.train;
  std::vector<std::string> overrides;
  const auto set = [&](const std::string& path, const std::string& value) {
    overrides.push_back(path + "=" + value);
  };
  const auto set_number = [&](const std::string& path, std::int64_t value) {
    set(path, std::to_string(value));
  };
  set_number("cluster.nodes", planned.cluster.nodes);
  set_number("cluster.gpus_per_node", planned.cluster.gpus_per_node);
  set("parallel.engine", std::string(name(mesh.engine)));
  set_number("parallel.dp", mesh.dp);
  set_number("parallel.tp", mesh.tp);
  set_number("parallel.pp", mesh.pp);
  set_number("parallel.cp", mesh.cp);
  set_number("parallel.ep", mesh.ep);
  set_number("parallel.vpp", mesh.vpp);
  if (mesh.engine != Engine::kHsdp) set_number("parallel.hsdp_shard", 0);
  set_number("parallel.world_size", mesh.ranks());
  set("parallel.schedule", std::string(name(mesh.schedule)));
  set("parallel.sequence_parallel", mesh.sequence_parallel ? "true" : "false");
  set("parallel.pipeline_split", split_text(mesh.pipeline_split));
  set_number("train.micro_batch_size", train.micro_batch_size);
  set_number("train.global_batch_size", train.global_batch_size);
  set("train.recompute", std::string(name(train.recompute)));
  set_number("train.recompute_every", train.recompute_every);
  return overrides;
}

std::string plan_yaml(const LoadedConfig& loaded, const LoadOptions& options,
                      const Config& planned) {
  LoadOptions planning = options;
  for (std::string& override : plan_overrides(planned)) {
    planning.overrides.push_back(std::move(override));
  }
  return load_config_text(loaded.text, loaded.config.source, planning).resolved_yaml;
}

}  // namespace nqd::planner::search
