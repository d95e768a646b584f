#include "reports/search_json.h"

#include <array>
#include <utility>

#include "reports/envelope.h"
#include "reports/json_writer.h"

namespace nqd::reports {
namespace {

using planner::Candidate;
using planner::CommGroup;
using planner::Config;
using planner::search::Detail;
using planner::search::Rule;
using planner::search::Score;
using planner::search::SearchResult;
using planner::search::Why;
using Layout = JsonWriter::Layout;

// mesh and choices, into the open object.
void write_candidate(JsonWriter& json, const Candidate& c) {
  json.key("mesh").begin_object(Layout::kInline);
  json.field("dp", c.dp).field("tp", c.tp).field("pp", c.pp).field("cp", c.cp);
  json.field("ep", c.ep).field("vpp", c.vpp);
  json.end();
  json.field("engine", planner::name(c.engine));
  json.field("schedule", planner::name(c.schedule));
  json.field("micro_batch_size", c.micro_batch_size);
  json.field("micro_batches", c.micro_batches);
  json.field("recompute", planner::name(c.recompute));
  json.field("sequence_parallel", c.sequence_parallel);
}

void write_score(JsonWriter& json, const Score& score) {
  json.begin_object(Layout::kInline);
  write_candidate(json, score.candidate);
  json.field("gpus", score.gpus());
  json.field("step_s", measured(score.step_s));
  json.field("worst_total_bytes", score.bytes);
  json.end();
}

void write_time(JsonWriter& json, const planner::StepTime& time) {
  constexpr std::array<std::pair<const char*, CommGroup>, planner::kCommGroups> kGroups = {
      {{"dp", CommGroup::kDp},
       {"tp", CommGroup::kTp},
       {"cp", CommGroup::kCp},
       {"ep", CommGroup::kEp},
       {"pp", CommGroup::kPp},
       {"embedding", CommGroup::kEmbedding}}};
  if (!time.known) {
    json.key("time").null();
    return;
  }
  json.key("time").begin_object();
  json.field("compute_s", time.compute_s);
  json.field("exposed_communication_s", time.exposed_s);
  json.field("bubble_s", time.bubble_s);
  json.field("optimizer_s", time.optimizer_s);
  json.field("jitter_s", time.jitter_s);
  json.key("exposed").begin_object(Layout::kInline);
  for (const auto& [name, group] : kGroups) {
    json.field(std::string(name) + "_s", time.groups[static_cast<std::size_t>(group)].exposed_s);
  }
  json.end().end();
}

void write_plan(JsonWriter& json, const Config& config, const Detail& plan) {
  json.begin_object();
  write_candidate(json, plan.score.candidate);
  json.key("pipeline_split").begin_array(Layout::kInline);
  const Config planned = planner::search::config_of(config, plan.score.candidate);
  for (const std::int64_t layers : planned.parallel.pipeline_split) json.value(layers);
  json.end();
  json.field("gpus", plan.score.gpus());
  json.field("step_s", measured(plan.time.step_s));
  json.field("simulated_step_s", plan.simulated_step_s);
  json.field("tokens_per_s", measured(plan.tokens_per_s));
  json.field("samples_per_s", measured(plan.samples_per_s));
  json.field("mfu", measured(plan.mfu));
  json.field("cost_per_step", measured(plan.cost_per_step));
  write_time(json, plan.time);
  json.field("worst_total_bytes", plan.worst.total_bytes);
  json.field("worst_stage", plan.worst.stage);
  json.key("worst_categories").begin_object(Layout::kInline);
  for (const auto& [category, bytes] : plan.worst.categories) {
    json.field(category + "_bytes", bytes);
  }
  json.end().end();
}

void write_nearest(JsonWriter& json, const std::optional<Score>& nearest) {
  json.key("nearest");
  nearest ? write_score(json, *nearest) : void(json.null());
}

// Into the open object.
void write_result(JsonWriter& json, const Config& config, const SearchResult& result,
                  const std::vector<Detail>& plans) {
  const planner::search::Found& found = result.found;
  json.field("objective", planner::search::name(result.objective));
  json.field("devices", config.cluster.devices());
  json.field("global_batch_size", config.train.global_batch_size);
  json.field("limit_bytes", measured(result.limit_bytes));
  json.field("considered", found.considered);
  json.field("evaluated", found.evaluated);
  json.field("fitting", found.fitting);
  json.field("elapsed_s", result.elapsed_s);
  json.key("plans").begin_array();
  for (const Detail& plan : plans) write_plan(json, config, plan);
  json.end();
  json.key("pareto").begin_array();
  for (const Score& score : found.front.sorted()) write_score(json, score);
  json.end();
  json.key("rejected").begin_object();
  for (std::size_t i = 0; i < planner::search::kRules; ++i) {
    if (found.rejected[i] > 0) json.field(label(static_cast<Rule>(i)), found.rejected[i]);
  }
  json.end();
  write_nearest(json, found.fitting == 0 ? found.nearest : std::nullopt);
}

void write_why(JsonWriter& json, const Config& config, const Why& why) {
  json.key("why").begin_object();
  json.field("asked", why.asked);
  json.field("fits", why.plan.has_value());
  json.field("rank", why.plan ? std::optional(why.rank) : std::nullopt);
  json.field("fitting", why.plan ? std::optional(why.fitting) : std::nullopt);
  json.key("plan");
  why.plan ? write_plan(json, config, *why.plan) : void(json.null());
  json.key("best");
  why.best ? write_plan(json, config, *why.best) : void(json.null());
  json.field("rule", why.rule ? std::optional(label(*why.rule)) : std::nullopt);
  json.field("reason", known(why.reason));
  write_nearest(json, why.nearest);
  json.key("changes").begin_array();
  for (const planner::search::Change& change : why.changes) {
    json.begin_object();
    json.field("key", change.key).field("value", change.value);
    json.key("plan");
    write_score(json, change.score);
    json.end();
  }
  json.end().end();
}

}  // namespace

std::string search_json(const Config& config, const SearchResult& result,
                        const std::vector<Detail>& plans, const std::optional<Why>& why) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", kSchemaVersion);
  json.field("path", config.source);
  write_result(json, config, result, plans);
  why ? write_why(json, config, *why) : void(json.key("why").null());
  json.end();
  return json.take();
}

std::string sweep_json(const Config& config, const std::vector<planner::search::SweepAxis>& axes,
                       const std::vector<planner::search::SweepPoint>& points) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", kSchemaVersion);
  json.field("path", config.source);
  json.key("sweep").begin_array();
  for (const planner::search::SweepPoint& point : points) {
    json.begin_object();
    json.key("values").begin_object(Layout::kInline);
    for (std::size_t i = 0; i < axes.size(); ++i) json.field(axes[i].path, point.values[i]);
    json.end();
    write_result(json, point.config, point.result, point.plans);
    json.end();
  }
  json.end().end();
  return json.take();
}

}  // namespace nqd::reports
