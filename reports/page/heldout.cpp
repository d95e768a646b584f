#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "reports/page/format.h"
#include "reports/page/sections.h"

namespace nqd::reports {
namespace {

// All that decides what a run of nqd computes, but its seed and where its data lie.
std::string settings_of(const Envelope& envelope) {
  std::string text;
  for (const planner::ResolvedValue& value : envelope.resolved) {
    if (value.path != "train.seed" && value.path != "data.path") {
      text += value.path + "=" + value.value + "\n";
    }
  }
  return text;
}

std::string seed_of(const Envelope& envelope) {
  for (const planner::ResolvedValue& value : envelope.resolved) {
    if (value.path == "train.seed") return value.value;
  }
  return {};
}

std::vector<LossCurve> curves_of(const Documents& documents) {
  std::vector<LossCurve> curves;
  std::map<std::string, std::string> groups;  // by settings: the label of the first such run
  for (const Evidence& document : documents) {
    const std::vector<LossCurve>& given = document.curves.curves;
    curves.insert(curves.end(), given.begin(), given.end());
    if (document.train.evals.empty()) continue;
    const std::string seed = seed_of(document.envelope);
    const std::string name = document_name(document, documents);
    const std::string settings = settings_of(document.envelope) + document.train.data_digest;
    curves.push_back({.label = seed.empty() ? name : name + ", seed " + seed,
                      .group = groups.emplace(settings, name).first->second,
                      .evals = document.train.evals});
  }
  return curves;
}

// The first run of every group before the others: their colours are those of the first series.
std::vector<LossCurve> leaders_first(const std::vector<LossCurve>& curves) {
  std::set<std::string> seen;
  std::vector<LossCurve> leaders;
  std::vector<LossCurve> others;
  for (const LossCurve& curve : curves) {
    (seen.insert(curve.group).second ? leaders : others).push_back(curve);
  }
  leaders.insert(leaders.end(), others.begin(), others.end());
  return leaders;
}

std::optional<double> loss_at(const LossCurve& curve, std::int64_t step) {
  for (const engine::EvalRecord& eval : curve.evals) {
    if (eval.step == step) return eval.loss;
  }
  return std::nullopt;
}

Table loss_table(const std::vector<LossCurve>& curves) {
  Table table{{"Step"}, {}};
  std::set<std::int64_t> steps;
  for (const LossCurve& curve : curves) {
    table.headers.push_back(curve.label);
    for (const engine::EvalRecord& eval : curve.evals) steps.insert(eval.step);
  }
  for (const std::int64_t step : steps) {
    std::vector<Cell> row = {number_cell(std::to_string(step))};
    for (const LossCurve& curve : curves) {
      const std::optional<double> loss = loss_at(curve, step);
      row.push_back(number_cell(loss ? fixed(*loss, 4) : ""));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

LineChart heldout_chart(const std::vector<LossCurve>& curves) {
  LineChart chart{.title = "Held-out loss of all runs",
                  .caption =
                      "Nats a token, of text never trained on. Runs of one colour differ in "
                      "their seed alone.",
                  .x = {"Step", "linear"},
                  .y = {"Held-out loss", "linear"},
                  .series = {},
                  .table = loss_table(curves)};
  std::map<std::string, std::size_t> leaders;
  for (const LossCurve& curve : leaders_first(curves)) {
    const std::size_t own = chart.series.size();
    const std::size_t leader = leaders.emplace(curve.group, own).first->second;
    Series series{curve.label, "line", {}};
    if (leader != own) series.like = leader;
    for (const engine::EvalRecord& eval : curve.evals) {
      series.points.push_back({static_cast<double>(eval.step), eval.loss, eval.loss, eval.loss});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// Mean and sample standard deviation of the last losses of each group.
Table group_table(const std::vector<LossCurve>& curves) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const LossCurve*>> groups;
  for (const LossCurve& curve : curves) {
    if (groups[curve.group].empty()) order.push_back(curve.group);
    groups[curve.group].push_back(&curve);
  }
  Table table{{"Runs", "Number", "Last step", "Held-out loss, mean", "Standard deviation"}, {}};
  for (const std::string& name : order) {
    const std::vector<const LossCurve*>& runs = groups[name];
    const auto count = static_cast<double>(runs.size());
    std::set<std::int64_t> last;
    double mean = 0;
    for (const LossCurve* run : runs) {
      last.insert(run->evals.back().step);
      mean += run->evals.back().loss / count;
    }
    // Runs that ended at different steps have no common last loss.
    if (last.size() > 1) mean = NAN;
    double squares = 0;
    for (const LossCurve* run : runs) squares += std::pow(run->evals.back().loss - mean, 2);
    table.rows.push_back({{name},
                          number_cell(std::to_string(runs.size())),
                          number_cell(std::to_string(*last.rbegin())),
                          number_cell(fixed(mean, 4)),
                          number_cell(fixed(std::sqrt(squares / (count - 1)), 4))});
  }
  return table;
}

}  // namespace

void add_heldout(Page& page, const Documents& documents) {
  const std::vector<LossCurve> curves = curves_of(documents);
  const bool foreign =
      std::any_of(documents.begin(), documents.end(),
                  [](const Evidence& document) { return !document.curves.curves.empty(); });
  // The chart of a single run's training shows its held-out loss already.
  if (curves.empty() || (curves.size() == 1 && !foreign)) return;
  page.begin_section("heldout", "Held-out loss");
  page.begin_charts();
  page.chart(heldout_chart(curves));
  page.end_charts();
  page.table(group_table(curves));
  page.end_section();
}

}  // namespace nqd::reports
