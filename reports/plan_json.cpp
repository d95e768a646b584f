#include "reports/plan_json.h"

#include <optional>

#include "planner/calibration/calibration_age.h"
#include "reports/evidence.h"
#include "reports/rank_map_json.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

std::optional<int> place(int line_or_column) {
  return line_or_column == 0 ? std::nullopt : std::optional(line_or_column);
}

void write_diagnostic(JsonWriter& json, const Diagnostic& diagnostic) {
  json.begin_object();
  json.field("code", known(diagnostic.code));
  json.field("severity", name(diagnostic.severity));
  json.field("file", known(diagnostic.where.file));
  json.field("line", place(diagnostic.where.line));
  json.field("column", place(diagnostic.where.column));
  json.field("path", known(diagnostic.path));
  json.field("message", diagnostic.message);
  json.field("expected", known(diagnostic.expected));
  json.field("got", known(diagnostic.got));
  json.field("hint", known(diagnostic.hint));
  json.key("related").begin_array();
  for (const RelatedPlace& related : diagnostic.related) {
    json.begin_object(Layout::kInline);
    json.field("file", known(related.where.file));
    json.field("line", place(related.where.line));
    json.field("column", place(related.where.column));
    json.field("message", related.message);
    json.end();
  }
  json.end().end();
}

void write_mesh(JsonWriter& json, const planner::Plan& plan) {
  const planner::ParallelSpec& parallel = plan.config.parallel;
  json.key("mesh").begin_object();
  json.field("engine", planner::name(parallel.engine));
  json.field("dp", parallel.dp);
  json.field("tp", parallel.tp);
  json.field("cp", parallel.cp);
  json.field("pp", parallel.pp);
  json.field("ep", parallel.ep);
  json.field("expert_tp", parallel.expert_tp > 0 ? parallel.expert_tp : parallel.tp);
  json.field("vpp", parallel.vpp);
  json.field("order", planner::name(parallel.order));
  json.field("ranks", parallel.ranks());
  json.field("schedule", planner::name(parallel.schedule));
  json.field("micro_batch_size", plan.config.train.micro_batch_size);
  json.field("global_batch_size", plan.config.train.global_batch_size);
  json.end();
}

void write_memory(JsonWriter& json, const planner::MemoryPlan& memory) {
  json.key("memory").begin_object();
  json.key("stages").begin_array();
  for (const planner::StageMemory& stage : memory.stages) {
    json.begin_object();
    json.field("stage", stage.stage);
    json.key("categories").begin_object();
    for (const auto& [category, bytes] : stage.categories) json.field(category + "_bytes", bytes);
    json.end();
    json.field("persistent_bytes", stage.persistent_bytes);
    json.field("transient_bytes", stage.transient_bytes);
    json.field("total_bytes", stage.total_bytes);
    json.end();
  }
  json.end();
  json.field("worst_total_bytes", memory.worst_total_bytes);
  json.field("limit_bytes", measured(memory.limit_bytes));
  json.field("fits", memory.limit_bytes > 0 ? std::optional(memory.fits) : std::nullopt);
  json.end();
}

void write_communication(JsonWriter& json, const std::vector<planner::GroupTraffic>& traffic) {
  json.key("communication").begin_array();
  for (const planner::GroupTraffic& group : traffic) {
    const auto timed = [&](double seconds) {
      return group.time_known ? std::optional(seconds) : std::nullopt;
    };
    json.begin_object(Layout::kInline);
    json.field("group", group.group);
    json.field("collective", group.collective);
    json.field("algorithm", group.algorithm);
    json.field("calls", group.calls);
    json.field("bytes_sent_per_rank", group.bytes_sent_per_rank);
    json.field("time_s", timed(group.time_s));
    json.field("exposed_s", timed(group.exposed_s));
    json.end();
  }
  json.end();
}

void write_time(JsonWriter& json, const planner::TimePlan& time) {
  const auto part = [&](double seconds) {
    return time.step_s > 0 ? std::optional(seconds) : std::nullopt;
  };
  json.key("time").begin_object();
  json.field("compute_s", part(time.compute_s));
  json.field("exposed_communication_s", part(time.exposed_communication_s));
  json.field("bubble_s", part(time.bubble_s));
  json.field("bubble_share", part(time.bubble_share()));
  json.field("optimizer_s", part(time.optimizer_s));
  json.field("jitter_s", part(time.jitter_s));
  json.field("step_s", part(time.step_s));
  json.field("tokens_per_s", measured(time.tokens_per_s));
  json.field("samples_per_s", measured(time.samples_per_s));
  json.field("error_bar_fraction", measured(time.error_bar_fraction));
  json.field("error_bar_source", known(time.error_bar_source));
  json.end();
}

void write_operations(JsonWriter& json, const planner::OperationsPlan& operations) {
  json.key("operations").begin_object();
  json.field("ingest_bytes_per_s_per_node", measured(operations.ingest_bytes_per_s_per_node));
  json.field("cost_per_hour", measured(operations.cost_per_hour));
  json.field("days_to_tokens", measured(operations.days_to_tokens));
  json.field("cost_to_tokens", measured(operations.cost_to_tokens));
  json.end();
}

void write_calibration(JsonWriter& json, const std::string& source) {
  json.key("calibration");
  if (source.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  json.field("source", source);
  json.field("measured_at", known(planner::measured_at(source)));
  json.end();
}

void write_config(JsonWriter& json, const PlannedConfig& config, bool rank_map) {
  json.begin_object();
  json.field("path", config.path);
  json.field("valid", config.loaded && config.plan.valid);
  json.key("diagnostics").begin_array();
  for (const Diagnostic& diagnostic : config.plan.diagnostics) write_diagnostic(json, diagnostic);
  json.end();
  if (config.loaded) {
    write_plan(json, config.plan);
  } else {
    for (const char* part : {"mesh", "parameters", "memory", "communication", "pipeline", "time",
                             "operations", "calibration", "mfu", "hfu", "recommendation"}) {
      json.key(part).null();
    }
  }
  // A mesh that breaks a rule has no plan, and its ranks have no places.
  const bool placed = config.loaded && !config.plan.memory.stages.empty();
  if (rank_map && placed) {
    write_rank_map(json, config.plan.config);
  } else if (rank_map) {
    json.key("rank_map").null();
  }
  json.end();
}

}  // namespace

void write_plan(JsonWriter& json, const planner::Plan& plan) {
  write_mesh(json, plan);
  json.field("parameters", measured(plan.parameters));
  write_memory(json, plan.memory);
  write_communication(json, plan.communication);
  json.key("pipeline").begin_object();
  json.field("micro_batches", plan.pipeline.micro_batches);
  json.field("bubble_fraction", plan.pipeline.bubble_fraction);
  json.end();
  write_time(json, plan.time);
  write_operations(json, plan.operations);
  write_calibration(json, plan.config.cluster.calibration_source);
  json.field("mfu", measured(plan.mfu));
  json.field("hfu", measured(plan.hfu));
  json.field("recommendation", known(plan.recommendation));
}

std::string failure_json(const std::vector<Diagnostic>& diagnostics) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", kSchemaVersion);
  json.key("diagnostics").begin_array();
  for (const Diagnostic& diagnostic : diagnostics) write_diagnostic(json, diagnostic);
  json.end().end();
  return json.take();
}

std::string plan_json(const std::vector<PlannedConfig>& configs, bool rank_maps) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", kSchemaVersion);
  json.key("configs").begin_array();
  for (const PlannedConfig& config : configs) write_config(json, config, rank_maps);
  json.end().end();
  return json.take();
}

}  // namespace nqd::reports
