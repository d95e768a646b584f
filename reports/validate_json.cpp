#include "reports/validate_json.h"

#include <algorithm>

#include "reports/json_writer.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;
using planner::JudgedRow;
using planner::LeftOut;
using planner::Quantity;
using planner::TableReport;
using planner::TableScore;

std::optional<double> left_out_error(std::span<const LeftOut> left_out, const TableScore& score) {
  const auto found = std::find_if(left_out.begin(), left_out.end(), [&](const LeftOut& table) {
    return table.file == score.file && score.quantity == Quantity::kStepTime;
  });
  if (found == left_out.end()) return std::nullopt;
  return 100 * found->mean_abs_error;
}

void write_score(JsonWriter& json, const TableReport& report, const TableScore& score,
                 std::span<const LeftOut> left_out) {
  const planner::Ranking& ranking = score.ranking;
  const auto if_ranked = [&](double share) {
    return ranking.groups > 0 ? std::optional(100 * share) : std::nullopt;
  };
  json.begin_object();
  json.field("file", report.file);
  json.field("rows", score.rows.size());
  json.field("skipped", report.skipped.size());
  json.field("quantity", name(score.quantity));
  json.field("mean_abs_error_pct", 100 * score.errors.mean_abs);
  json.field("max_abs_error_pct", 100 * score.errors.max_abs);
  json.field("null_mean_abs_error_pct", 100 * score.null_errors.mean_abs);
  json.field("null_max_abs_error_pct", 100 * score.null_errors.max_abs);
  json.field("kendall_tau", ranking.kendall_tau);
  json.field("ranked_groups", ranking.groups);
  json.field("best_in_top3_pct", if_ranked(ranking.best_in_top3));
  json.field("mean_regret_pct", if_ranked(ranking.mean_regret));
  json.field("suspect_rows", score.suspects);
  json.field("unsuspected_mean_abs_error_pct", 100 * score.unsuspected.mean_abs);
  json.field("left_out_mean_abs_error_pct", left_out_error(left_out, score));
  json.end();
}

void write_row(JsonWriter& json, const TableScore& score, const JudgedRow& judged) {
  json.begin_object(Layout::kInline);
  json.field("file", score.file);
  json.field("id", judged.row->id);
  json.field("quantity", name(score.quantity));
  json.field("predicted", judged.predicted);
  json.field("measured", judged.row->measured);
  json.field("error_pct", 100 * judged.error);
  json.field("derived", known(judged.row->derived));
  json.field("suspect", known(judged.row->suspect));
  json.field("not_fitted", known(judged.row->not_fitted));
  json.key("assumed").begin_array(Layout::kInline);
  for (const std::string& assumed : judged.row->assumed) json.value(assumed);
  json.end().end();
}

// A table without one row that could be judged: nothing is said about its errors.
void write_empty(JsonWriter& json, const TableReport& report) {
  json.begin_object();
  json.field("file", report.file);
  json.field("rows", 0);
  json.field("skipped", report.skipped.size());
  json.field("quantity", name(Quantity::kStepTime));
  for (const char* figure : {"mean_abs_error_pct", "max_abs_error_pct", "null_mean_abs_error_pct",
                             "null_max_abs_error_pct", "kendall_tau"}) {
    json.key(figure).null();
  }
  json.field("ranked_groups", 0);
  json.key("best_in_top3_pct").null().key("mean_regret_pct").null();
  json.field("suspect_rows", 0);
  json.key("unsuspected_mean_abs_error_pct").null().key("left_out_mean_abs_error_pct").null();
  json.end();
}

}  // namespace

std::string validate_json(std::span<const TableReport> reports, std::span<const LeftOut> left_out) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", 1);
  json.key("tables").begin_array();
  for (const TableReport& report : reports) {
    for (const TableScore& score : report.scores) write_score(json, report, score, left_out);
    if (report.scores.empty()) write_empty(json, report);
  }
  json.end();
  json.key("rows").begin_array();
  for (const TableReport& report : reports) {
    for (const TableScore& score : report.scores) {
      for (const JudgedRow& judged : score.rows) write_row(json, score, judged);
    }
  }
  json.end();
  json.key("skipped").begin_array();
  for (const TableReport& report : reports) {
    for (const planner::SkippedRow& row : report.skipped) {
      json.begin_object(Layout::kInline);
      json.field("file", report.file).field("id", row.id).field("reason", row.reason).end();
    }
  }
  json.end().end();
  return json.take();
}

std::string left_out_json(const std::string& constants, std::span<const LeftOut> left_out) {
  JsonWriter json;
  json.begin_object();
  json.field("constants", constants);
  json.key("tables").begin_array();
  for (const LeftOut& table : left_out) {
    json.begin_object(Layout::kInline);
    json.field("file", table.file).field("rows", table.rows);
    json.field("mean_abs_error_pct", 100 * table.mean_abs_error);
    json.field("max_abs_error_pct", 100 * table.max_abs_error).end();
  }
  json.end().end();
  return json.take();
}

}  // namespace nqd::reports
