#include "planner/validation/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "base/units.h"

namespace nqd::planner {
namespace {

constexpr int kColumns = 12;
using Cells = std::array<std::string, kColumns>;

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}
std::string percent_of(double share) {
  if (std::abs(share) < 1e4) return fixed(100 * share, 1);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", 100 * share);
  return text.data();
}

const LeftOut* find(std::span<const LeftOut> left_out, const TableScore& score) {
  if (score.quantity != Quantity::kStepTime) return nullptr;
  const auto found = std::find_if(left_out.begin(), left_out.end(),
                                  [&](const LeftOut& table) { return table.file == score.file; });
  return found == left_out.end() ? nullptr : &*found;
}

Cells header() {
  return {"table",     "quantity",   "rows", "skipped", "mean %",   "max %",
          "null mean", "null max %", "tau",  "top 3 %", "regret %", "left out %"};
}

Cells cells_of(const TableReport& report, const TableScore& score,
               std::span<const LeftOut> left_out) {
  Cells cells = {report.file,
                 std::string(name(score.quantity)),
                 std::to_string(score.rows.size()),
                 std::to_string(report.skipped.size()),
                 percent_of(score.errors.mean_abs),
                 percent_of(score.errors.max_abs),
                 percent_of(score.null_errors.mean_abs),
                 percent_of(score.null_errors.max_abs),
                 "-",
                 "-",
                 "-",
                 "-"};
  if (score.ranking.kendall_tau) cells[8] = fixed(*score.ranking.kendall_tau, 3);
  if (score.ranking.groups > 0) {
    cells[9] = percent_of(score.ranking.best_in_top3);
    cells[10] = percent_of(score.ranking.mean_regret);
  }
  if (const LeftOut* table = find(left_out, score)) cells[11] = percent_of(table->mean_abs_error);
  return cells;
}

std::vector<Cells> table_of(std::span<const TableReport> reports,
                            std::span<const LeftOut> left_out) {
  std::vector<Cells> lines = {header()};
  for (const TableReport& report : reports) {
    for (const TableScore& score : report.scores) {
      lines.push_back(cells_of(report, score, left_out));
    }
    if (report.scores.empty()) {
      Cells cells;
      cells.fill("-");
      cells[0] = report.file;
      cells[2] = "0";
      cells[3] = std::to_string(report.skipped.size());
      lines.push_back(cells);
    }
  }
  return lines;
}

// "17 × no layers; 2 × …": reasons with their counts, in alphabetical order.
std::string reasons_of(const TableReport& report) {
  std::map<std::string, int> counts;
  for (const SkippedRow& row : report.skipped) ++counts[row.reason];
  std::string text;
  for (const auto& [reason, count] : counts) {
    text += (text.empty() ? "" : "; ") + std::to_string(count) + " × " + reason;
  }
  return text;
}

// Which rows are suspect, and which are judged but not fitted.
std::string doubts(const TableScore& score, const std::string& bullet) {
  std::string suspect;
  std::map<std::string, std::string> not_fitted;  // ids by reason
  for (const JudgedRow& judged : score.rows) {
    const PublishedRow& row = *judged.row;
    if (!row.suspect.empty()) suspect += " " + row.id;
    if (!row.not_fitted.empty()) not_fitted[row.not_fitted] += " " + row.id;
  }
  std::string text;
  if (!suspect.empty()) {
    text += bullet + score.file + ", suspect (counted, not fitted; without them " +
            percent_of(score.unsuspected.mean_abs) + " %):" + suspect + "\n";
  }
  for (const auto& [reason, ids] : not_fitted) {
    text += bullet + score.file + ", not fitted (" + reason + "):" + ids + "\n";
  }
  return text;
}

std::string notes(std::span<const TableReport> reports, const std::string& bullet) {
  std::string text;
  for (const TableReport& report : reports) {
    if (!report.skipped.empty()) {
      text += bullet + report.file + ", skipped: " + reasons_of(report) + "\n";
    }
    if (report.skipped.empty() && report.scores.empty()) {
      text += bullet + report.file + ": the table has no rows\n";
    }
    for (const TableScore& score : report.scores) text += doubts(score, bullet);
  }
  return text;
}

// Mean and largest error of the step times of one device, precision and kind of model.
struct Part {
  std::vector<double> errors;
  std::vector<double> null_errors;
};
std::string part_of(const PublishedRow& row) {
  const Config& config = *row.config;
  return config.cluster.gpu + " | " + std::string(name(config.train.precision)) + " | " +
         (config.model.moe.experts > 0 ? "experts" : "dense");
}

std::string render_parts_markdown(std::span<const TableReport> reports) {
  std::string text =
      "| table | device | precision | model | rows | mean % | max % | null mean |\n"
      "|---|---|---|---|---:|---:|---:|---:|\n";
  for (const TableReport& report : reports) {
    for (const TableScore& score : report.scores) {
      if (score.quantity != Quantity::kStepTime) continue;
      std::map<std::string, Part> parts;
      for (const JudgedRow& judged : score.rows) {
        Part& part = parts[part_of(*judged.row)];
        part.errors.push_back(judged.error);
        part.null_errors.push_back(judged.null_error);
      }
      if (parts.size() < 2) continue;
      for (const auto& [label, part] : parts) {
        const ErrorSummary errors = summarise(part.errors);
        text += "| " + report.file + " | " + label + " | " + std::to_string(part.errors.size()) +
                " | " + percent_of(errors.mean_abs) + " | " + percent_of(errors.max_abs) + " | " +
                percent_of(summarise(part.null_errors).mean_abs) + " |\n";
      }
    }
  }
  return text;
}

std::string amount(Quantity quantity, double value) {
  return quantity == Quantity::kPeakMemory ? format_bytes_binary(value) : format_seconds(value);
}

}  // namespace

std::string render_scores(std::span<const TableReport> reports, std::span<const LeftOut> left_out) {
  const std::vector<Cells> lines = table_of(reports, left_out);
  std::array<std::size_t, kColumns> widths{};
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) {
      const std::string padding(widths[i] - cells[i].size(), ' ');
      text += (i > 0 ? "  " : "") + (i < 2 ? cells[i] + padding : padding + cells[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  const std::string remarks = notes(reports, "  ");
  return remarks.empty() ? text : text + '\n' + remarks;
}

std::string render_scores_markdown(std::span<const TableReport> reports,
                                   std::span<const LeftOut> left_out) {
  const std::vector<Cells> lines = table_of(reports, left_out);
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += '|';
    for (const std::string& cell : lines[i]) text += ' ' + cell + " |";
    text += '\n';
    if (i > 0) continue;
    text += "|---|---|";
    for (int column = 2; column < kColumns; ++column) text += "---:|";
    text += '\n';
  }
  return text + '\n' + notes(reports, "- ") +
         "\nStep times by device, precision and kind of model:\n\n" +
         render_parts_markdown(reports);
}

std::string render_rows(std::span<const TableReport> reports) {
  std::string text;
  for (const TableReport& report : reports) {
    for (const TableScore& score : report.scores) {
      text += report.file + ", " + std::string(name(score.quantity)) + "\n";
      for (const JudgedRow& judged : score.rows) {
        const PublishedRow& row = *judged.row;
        text += "  " + row.id + ": predicted " + amount(score.quantity, judged.predicted) +
                ", measured " + amount(score.quantity, row.measured) + ", " +
                (judged.error < 0 ? "" : "+") + percent_of(judged.error) + " %";
        if (!row.derived.empty()) text += "; derived: " + row.derived;
        for (const std::string& assumed : row.assumed) text += "; assumed: " + assumed;
        if (!row.suspect.empty()) text += "; suspect: " + row.suspect;
        text += '\n';
      }
    }
    for (const SkippedRow& row : report.skipped) {
      text += "  " + row.id + ": skipped: " + row.reason + "\n";
    }
  }
  return text;
}

std::string render_constants(const FitResult& result) {
  std::string text;
  for (std::size_t i = 0; i < result.constants.size(); ++i) {
    const Constant& constant = result.constants[i];
    std::array<char, 64> value{};
    std::snprintf(value.data(), value.size(), "%.4g", constant.value);
    std::array<char, 64> before{};
    std::snprintf(before.data(), before.size(), "%.4g", result.before[i]);
    for (const std::string& preset : constant.presets) {
      text += std::string(constant.field->kind) + "/" + preset + ".yaml  " +
              std::string(constant.field->name) + ": " + value.data() + "  # was " + before.data() +
              "\n";
    }
  }
  for (const LeftOut& table : result.tables) {
    text += "# " + table.file + ": mean " + percent_of(table.mean_abs_error) + " %, max " +
            percent_of(table.max_abs_error) + " %\n";
  }
  return text + "# loss " + fixed(result.first_cost, 6) + " -> " + fixed(result.cost, 6) + " in " +
         std::to_string(result.iterations) + " iterations\n";
}

std::string render_left_out(std::span<const LeftOut> left_out) {
  std::string text;
  for (const LeftOut& table : left_out) {
    text += table.file + ": " + std::to_string(table.rows) + " rows, mean " +
            percent_of(table.mean_abs_error) + " %, max " + percent_of(table.max_abs_error) +
            " % with constants fitted to the other tables\n";
  }
  return text;
}

}  // namespace nqd::planner
