#include <optional>

#include "engine/train/device_check.h"
#include "reports/envelope_json.h"
#include "reports/evidence.h"
#include "reports/plan_json.h"
#include "reports/summary.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

void write_step(JsonWriter& json, const engine::StepRecord& step) {
  json.begin_object(Layout::kInline);
  json.field("step", step.step);
  json.field("loss", step.loss);
  json.field("tokens", step.tokens);
  json.field("step_s", step.step_s);
  json.field("grad_norm", step.grad_norm);
  json.field("lr", step.lr);
  json.field("exposed_communication_s", step.exposed_communication_s);
  json.field("skipped", step.skipped);
  if (step.host_s) json.field("host_s", *step.host_s);
  json.end();
}

void write_device(JsonWriter& json, const engine::TrainResult& result) {
  if (result.step_graph) {
    json.key("step_graph").begin_object(Layout::kInline);
    json.field("used", result.step_graph->steps > 0);
    json.field("steps", result.step_graph->steps);
    json.field("reason", result.step_graph->reason);
    json.end();
  }
  if (!result.uncounted_memory) return;
  json.key("uncounted_memory").begin_object(Layout::kInline);
  json.field("scratch_bytes", result.uncounted_memory->scratch_bytes);
  json.field("library_bytes", result.uncounted_memory->library_bytes);
  json.field("pinned_bytes", result.uncounted_memory->pinned_bytes);
  json.field("reserved_bytes", result.uncounted_memory->reserved_bytes);
  json.end();
}

void write_traffic(JsonWriter& json, const engine::TrafficRecord& sent) {
  json.begin_object(Layout::kInline);
  json.field("rank", sent.rank);
  json.field("group", sent.group);
  json.field("collective", sent.collective);
  json.field("calls", sent.calls);
  json.field("messages", sent.messages);
  json.field("bytes_sent", sent.bytes_sent);
  json.end();
}

void write_eval(JsonWriter& json, const engine::EvalRecord& eval) {
  json.begin_object(Layout::kInline);
  json.field("step", eval.step);
  json.field("heldout_loss", eval.loss);
  json.field("tokens", eval.tokens);
  json.end();
}

void write_roll_back(JsonWriter& json, const engine::RollBackRecord& one) {
  json.begin_object(Layout::kInline);
  json.field("at_step", one.at_step);
  json.field("to_step", one.to_step);
  json.field("generation", one.generation);
  json.field("skipped_batches", one.skipped_batches);
  json.field("reason", one.reason);
  json.end();
}

void write_straggler(JsonWriter& json, const engine::StragglerRecord& one) {
  json.begin_object(Layout::kInline);
  json.field("step", one.step);
  json.field("rank", one.rank);
  json.field("host", one.host);
  json.field("phase", one.phase);
  json.field("seconds", one.seconds);
  json.field("median_s", one.median_s);
  json.field("score", one.score);
  json.end();
}

void write_checkpoints(JsonWriter& json, const engine::TrainResult& result) {
  if (!result.resumed_from.empty()) {
    json.key("resumed").begin_object(Layout::kInline);
    json.field("after_step", result.resumed_after);
    json.field("generation", result.resumed_from);
    json.end();
  }
  if (!result.checkpoints.empty()) {
    json.key("checkpoints").begin_array();
    for (const engine::CheckpointRecord& one : result.checkpoints) {
      json.begin_object(Layout::kInline);
      json.field("step", one.step);
      json.field("generation", one.generation);
      json.field("bytes", one.bytes);
      json.field("stall_s", one.stall_s);
      json.field("write_s", one.write_s);
      if (one.durable_s) json.field("durable_s", *one.durable_s);
      json.end();
    }
    json.end();
  }
  if (!result.roll_backs.empty()) {
    json.key("roll_backs").begin_array();
    for (const engine::RollBackRecord& one : result.roll_backs) write_roll_back(json, one);
    json.end();
  }
  if (!result.stragglers.empty()) {
    json.key("stragglers").begin_array();
    for (const engine::StragglerRecord& one : result.stragglers) write_straggler(json, one);
    json.end();
  }
  if (result.stopped) json.field("stopped", true);
}

void write_audit_row(JsonWriter& json, const engine::AuditRow& row) {
  const std::string suffix = "_" + row.unit;
  // Something measured where nothing was predicted has no ratio.
  const bool has_ratio = row.predicted != 0 || row.measured == 0;
  json.begin_object();
  json.field("category", row.category);
  json.field("kind", row.kind);
  json.field("unit", row.unit);
  json.field("predicted" + suffix, row.predicted);
  json.field("measured" + suffix, row.measured);
  json.field("ratio", has_ratio ? std::optional(row.ratio) : std::nullopt);
  json.field("exact", row.exact);
  json.field("ok", row.ok);
  json.field("note", row.note);
  json.end();
}

void write_summary(JsonWriter& json, const engine::TrainResult& result) {
  const TrainSummary summary = summarize(result);
  json.key("summary").begin_object();
  json.field("steps", summary.steps);
  json.field("tokens", summary.tokens);
  json.field("first_loss", summary.first_loss);
  json.field("final_loss", summary.final_loss);
  json.field("first_heldout_loss", summary.first_heldout_loss);
  json.field("final_heldout_loss", summary.final_heldout_loss);
  json.field("step_p50_s", summary.step_p50_s);
  json.field("step_p95_s", summary.step_p95_s);
  json.field("exact_rows", summary.exact_rows);
  json.field("exact_rows_ok", summary.exact_rows_ok);
  json.end();
}

void write_fault(JsonWriter& json, const engine::FaultRecord& fault) {
  json.key("fault").begin_object();
  json.field("code", fault.code);
  json.field("message", fault.message);
  json.field("lost_rank", fault.lost_rank < 0 ? std::nullopt : std::optional(fault.lost_rank));
  json.field("lost_host", known(fault.lost_host));
  json.field("at_step", fault.at_step);
  json.field("detected_s", fault.detected_s);
  json.end();
}

collectives::Verdict audit_verdict(const engine::AuditRow& row) {
  return {.code = "audit-mismatch",
          .severity = "error",
          .confidence = "certain",
          .evidence = row.category + ": predicted " + json_number(row.predicted) + " " + row.unit +
                      ", measured " + json_number(row.measured) + " " + row.unit,
          .threshold = row.exact ? "measured = predicted" : row.note,
          .cause = "the run did not do what the plan says",
          .next_step = "compare the category's tensors or messages with the plan's"};
}

std::vector<collectives::Verdict> verdicts(const engine::TrainResult& result,
                                           const std::string& planned_gpu) {
  std::vector<collectives::Verdict> found;
  for (const engine::AuditRow& row : result.audit) {
    if (!row.ok) found.push_back(audit_verdict(row));
  }
  for (const engine::DeviceWarning& warning : engine::device_warnings(planned_gpu, result.ranks)) {
    found.push_back({.code = warning.code,
                     .severity = "warning",
                     .confidence = "certain",
                     .evidence = warning.evidence,
                     .threshold = warning.threshold,
                     .cause = warning.cause,
                     .next_step = warning.next_step});
  }
  if (result.fault) {
    found.push_back({.code = "run-fault",
                     .severity = "error",
                     .confidence = "certain",
                     .evidence = result.fault->message,
                     .threshold = "a run ends with every rank alive",
                     .cause = result.fault->code,
                     .next_step = "nqd explain " + result.fault->code});
  }
  return found;
}

}  // namespace

std::string train_json(const Envelope& envelope, const engine::TrainResult& result,
                       const planner::Plan& plan) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.key("predicted_plan").begin_object();
  write_plan(json, plan);
  json.end();
  json.key("data").begin_object(Layout::kInline);
  json.field("digest", known(result.data_digest));
  json.field("path", known(plan.config.data.path));
  json.field("synthetic", result.data_synthetic);
  json.end();
  json.key("steps").begin_array();
  for (const engine::StepRecord& step : result.steps) write_step(json, step);
  json.end();
  json.key("evals").begin_array();
  for (const engine::EvalRecord& eval : result.evals) write_eval(json, eval);
  json.end();
  write_checkpoints(json, result);
  json.field("skipped_steps", result.skipped_steps);
  json.field("parameters", result.parameters);
  json.field("tokens_per_s", measured(result.tokens_per_s));
  json.field("mfu", measured(result.mfu));
  json.field("noise_scale_sequences", result.noise_scale);
  json.field("gemm_library", known(result.gemm_library));
  json.field("gemm_core", known(result.gemm_core));
  write_device(json, result);
  json.field("attention_library", known(result.attention_library));
  json.field("weights_sha256", known(result.weights_sha256));
  json.key("audit").begin_array();
  for (const engine::AuditRow& row : result.audit) write_audit_row(json, row);
  json.end();
  json.key("traffic").begin_array();
  for (const engine::TrafficRecord& sent : result.traffic) write_traffic(json, sent);
  json.end();
  // A run that stopped before its audit has no verdict on it.
  json.field("audit_ok", result.audit.empty() ? std::nullopt : std::optional(result.audit_ok));
  if (result.fault) write_fault(json, *result.fault);
  write_summary(json, result);
  write_verdicts(json, verdicts(result, plan.config.cluster.gpu));
  json.end();
  return json.take();
}

std::string metrics_line(const engine::StepRecord& step) {
  JsonWriter json;
  write_step(json, step);
  return json.take();
}

std::string metrics_line(const engine::EvalRecord& eval) {
  JsonWriter json;
  write_eval(json, eval);
  return json.take();
}

std::string metrics_line(const engine::RollBackRecord& roll_back) {
  JsonWriter json;
  json.begin_object(Layout::kInline);
  json.field("step", roll_back.at_step);
  json.key("roll_back");
  write_roll_back(json, roll_back);
  json.end();
  return json.take();
}

}  // namespace nqd::reports
