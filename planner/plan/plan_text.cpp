#include "planner/plan/plan_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "base/ledger.h"
#include "base/units.h"
#include "planner/calibration/calibration_age.h"
#include "planner/text.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kCategoryWidth = 22;
constexpr std::size_t kStageWidth = 24;

template <typename... Args>
std::string printed(const char* pattern, Args... args) {
  std::array<char, 256> buffer{};
  std::snprintf(buffer.data(), buffer.size(), pattern, args...);
  return buffer.data();
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// "dp 2 x tp 8 x pp 4 = 64 ranks"; cp and ep where there are any, an order that is not nqd's own.
std::string mesh_text(const ParallelSpec& mesh) {
  std::string text = "dp " + std::to_string(mesh.dp) + " x tp " + std::to_string(mesh.tp);
  if (mesh.cp > 1) text += " x cp " + std::to_string(mesh.cp);
  text += " x pp " + std::to_string(mesh.pp) + " = " + std::to_string(mesh.ranks()) + " ranks";
  if (mesh.ep > 1) text += ", ep " + std::to_string(mesh.ep);
  if (mesh.order != MeshOrder{}) text += ", order " + std::string(name(mesh.order));
  return text;
}

std::string head(const Plan& plan) {
  const Config& config = plan.config;
  const ParallelSpec& mesh = config.parallel;
  std::string text = config.source + "\n";
  const std::string& preset = config.model.preset;
  text += "  model    " + (preset.empty() ? "family " + config.model.family : preset) + ", " +
          format_count(static_cast<std::uint64_t>(plan.parameters)) + " parameters (" +
          format_short(plan.parameters) + ")\n";
  text += "  mesh     " + mesh_text(mesh) + ", engine " + std::string(name(mesh.engine)) + ", " +
          std::string(name(config.train.precision)) + "\n";
  text += "  batch    " + std::to_string(config.train.global_batch_size) +
          " sequences = micro-batch " + std::to_string(config.train.micro_batch_size) + " x m " +
          std::to_string(plan.pipeline.micro_batches) + " x dp " + std::to_string(mesh.dp) + "\n";
  return text;
}

// Stages with the same bytes are one column: "stages 1-6".
struct StageColumn {
  std::string title;
  const StageMemory* stage;
};

std::vector<StageColumn> columns(const MemoryPlan& memory) {
  std::vector<StageColumn> out;
  std::int64_t first = 0;
  for (const StageMemory& stage : memory.stages) {
    const bool same = !out.empty() && out.back().stage->categories == stage.categories;
    if (!same) {
      first = stage.stage;
      out.push_back({"stage " + std::to_string(first), &stage});
    } else {
      out.back().title = "stages " + std::to_string(first) + "-" + std::to_string(stage.stage);
    }
  }
  return out;
}

std::string memory_line(const std::string& label, const std::vector<StageColumn>& stages,
                        double (*value)(const StageMemory&, std::string_view)) {
  std::string line = "  " + padded(label, kCategoryWidth);
  for (const StageColumn& column : stages) {
    line += right(format_bytes(value(*column.stage, label)), kStageWidth);
  }
  return line + "\n";
}

double category_bytes(const StageMemory& stage, std::string_view label) {
  const auto found = stage.categories.find(std::string(label));
  return found == stage.categories.end() ? 0 : found->second;
}

std::string memory_block(const std::vector<StageColumn>& stages) {
  std::string text = "  " + padded("memory of a rank", kCategoryWidth);
  for (const StageColumn& column : stages) text += right(column.title, kStageWidth);
  text += "\n";
  for (std::size_t i = 0; i < static_cast<std::size_t>(MemoryTag::kCount); ++i) {
    const std::string label(name(static_cast<MemoryTag>(i)));
    const bool present = std::any_of(stages.begin(), stages.end(), [&](const StageColumn& column) {
      return category_bytes(*column.stage, label) > 0;
    });
    if (present) text += memory_line(label, stages, category_bytes);
  }
  text += memory_line("persistent", stages,
                      [](const StageMemory& s, std::string_view) { return s.persistent_bytes; });
  text += memory_line("transient", stages,
                      [](const StageMemory& s, std::string_view) { return s.transient_bytes; });
  text += memory_line("total", stages,
                      [](const StageMemory& s, std::string_view) { return s.total_bytes; });
  return text;
}

// A pipeline of many unequal stages is printed in blocks that fit a terminal.
std::string memory_text(const MemoryPlan& memory) {
  constexpr std::size_t kColumnsABlock = 4;
  const std::vector<StageColumn> all = columns(memory);
  std::string text;
  for (std::size_t from = 0; from < all.size(); from += kColumnsABlock) {
    const std::size_t to = std::min(from + kColumnsABlock, all.size());
    text += "\n" + memory_block({all.begin() + static_cast<std::ptrdiff_t>(from),
                                 all.begin() + static_cast<std::ptrdiff_t>(to)});
  }
  return text;
}

std::string communication_text(const Plan& plan) {
  if (plan.communication.empty()) return "\n  communication: none, one rank in every group\n";
  std::string text = "\n  " + padded("communication a step", kCategoryWidth) +
                     padded("collective", 22) + right("calls", 8) +
                     right("sent by a rank", kStageWidth) + right("time", 12) +
                     right("exposed", 12) + "\n";
  for (const GroupTraffic& row : plan.communication) {
    const auto timed = [&](double seconds) {
      return row.time_known ? format_seconds(seconds) : std::string("unknown");
    };
    text += "  " + padded(row.group, kCategoryWidth) +
            padded(row.collective + " (" + row.algorithm + ")", 22) +
            right(printed("%.0f", row.calls), 8) +
            right(format_bytes(row.bytes_sent_per_rank), kStageWidth) +
            right(timed(row.time_s), 12) + right(timed(row.exposed_s), 12) + "\n";
  }
  return text;
}

std::string error_bar_text(const TimePlan& time) {
  if (time.error_bar_fraction <= 0) return {};
  const std::string source = time.error_bar_source;
  return "           +- " + percent(time.error_bar_fraction) +
         (source.empty() ? "" : " (" + source + ")") + "\n";
}

// Models without tokens are counted in samples.
std::string rate_text(const TimePlan& time) {
  if (time.tokens_per_s > 0 || time.samples_per_s <= 0) {
    return printed("%.0f", time.tokens_per_s) + " tokens/s";
  }
  return printed("%.1f", time.samples_per_s) + " samples/s";
}

std::string time_text(const Plan& plan) {
  std::string text;
  if (plan.config.parallel.pp > 1) {
    const bool timed = plan.time.step_s > 0;
    const std::string equal = percent(plan.pipeline.bubble_fraction);
    text += "\n  bubble   " +
            (timed ? percent(plan.time.bubble_share()) + " of the step, " + equal +
                         " if all stages were equal"
                   : equal) +
            " (p = " + std::to_string(plan.config.parallel.pp) +
            ", m = " + std::to_string(plan.pipeline.micro_batches) + ", schedule " +
            std::string(name(plan.config.parallel.schedule)) + ")\n";
  }
  const TimePlan& time = plan.time;
  if (time.step_s <= 0) return text + "\n  step     unknown\n";
  text += "\n  step     " + format_seconds(time.step_s) + " = compute " +
          format_seconds(time.compute_s) + " + bubble " + format_seconds(time.bubble_s) +
          " + exposed communication " + format_seconds(time.exposed_communication_s) +
          " + optimizer " + format_seconds(time.optimizer_s) +
          (time.jitter_s > 0 ? " + stragglers " + format_seconds(time.jitter_s) : "") + "\n";
  text += error_bar_text(time);
  text += "           " + rate_text(time);
  if (plan.mfu > 0) {
    text += ", MFU " + percent(plan.mfu) + ", HFU " + percent(plan.hfu) + " (causal attention)";
  }
  return text + "\n";
}

// What the run asks of its surroundings, as far as it is known.
std::string operations_text(const Plan& plan) {
  const OperationsPlan& operations = plan.operations;
  std::string text;
  if (operations.ingest_bytes_per_s_per_node > 0) {
    text += "  input    " + format_bytes(operations.ingest_bytes_per_s_per_node) +
            " a second and node\n";
  }
  if (operations.cost_per_hour > 0) {
    text += "  cost     $" + printed("%.2f", operations.cost_per_hour) + " an hour\n";
  }
  if (operations.days_to_tokens > 0) {
    text += "  tokens   " + format_short(plan.config.train.tokens) + " in " +
            printed("%.1f", operations.days_to_tokens) + " days";
    if (operations.cost_to_tokens > 0) {
      text += " for $" + format_count(static_cast<std::uint64_t>(operations.cost_to_tokens));
    }
    text += "\n";
  }
  return text;
}

std::string calibration_text(const ClusterSpec& cluster, std::time_t now) {
  if (cluster.calibration_source.empty()) return {};
  const std::string age = now > 0 ? age_text(cluster.calibration_source, now) : "";
  return "  rates    measured: " + cluster.calibration_source +
         (age.empty() ? "" : " (" + age + ")") + "\n";
}

const Diagnostic* first_error_of(const Plan& plan) {
  for (const Diagnostic& diagnostic : plan.diagnostics) {
    if (diagnostic.severity == Severity::kError) return &diagnostic;
  }
  return nullptr;
}

std::string first_error(const Plan& plan) {
  const Diagnostic* error = first_error_of(plan);
  return error == nullptr ? "" : error->code + " " + error->message;
}

std::string memory_verdict(const MemoryPlan& memory) {
  const std::string worst = format_bytes(memory.worst_total_bytes);
  if (memory.limit_bytes <= 0) return worst + " a rank, limit unknown";
  return worst + " of " + format_bytes(memory.limit_bytes);
}

std::string verdict_text(const Plan& plan) {
  if (plan.valid) {
    const double spare = plan.memory.limit_bytes - plan.memory.worst_total_bytes;
    return "\n  verdict  pass: " + memory_verdict(plan.memory) +
           (plan.memory.limit_bytes > 0 ? ", " + format_bytes(spare) + " to spare" : "") + "\n";
  }
  const Diagnostic* error = first_error_of(plan);
  std::string text = "\n  verdict  fail: " + first_error(plan) + "\n";
  if (error != nullptr && !error->hint.empty()) text += "  to fix   " + error->hint + "\n";
  return text;
}

}  // namespace

std::string render_plan(const Plan& plan, std::time_t now) {
  std::string text = head(plan);
  if (!plan.memory.stages.empty()) {
    text += memory_text(plan.memory) + communication_text(plan) + time_text(plan) +
            operations_text(plan) + calibration_text(plan.config.cluster, now);
  }
  text += verdict_text(plan);
  if (!plan.recommendation.empty()) text += "  advice   " + plan.recommendation + "\n";
  return text;
}

std::string render_table(const std::vector<PlanVerdict>& verdicts) {
  std::size_t width = 0;
  for (const PlanVerdict& verdict : verdicts) width = std::max(width, verdict.path.size());
  std::string text;
  std::size_t passed = 0;
  for (const PlanVerdict& verdict : verdicts) {
    const bool pass = verdict.loaded && verdict.plan.valid;
    passed += pass ? 1 : 0;
    text += padded(verdict.path, width) + (pass ? "  pass  " : "  fail  ") +
            (pass ? memory_verdict(verdict.plan.memory) : first_error(verdict.plan)) + "\n";
  }
  return text + std::to_string(passed) + " of " + std::to_string(verdicts.size()) + " pass\n";
}

}  // namespace nqd::planner
