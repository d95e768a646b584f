#include "reports/parity_json.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>

#include "reports/envelope_json.h"
#include "reports/json_writer.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;
using engine::ParityVerdict;

std::string_view launcher(const ParityCase& one) {
  return one.cell.under_mpi ? "mpirun" : "threads";
}

std::int64_t failures(const std::vector<ParityCase>& cases) {
  return std::count_if(cases.begin(), cases.end(), [](const ParityCase& one) {
    return one.outcome.verdict == ParityVerdict::kFailed;
  });
}

void write_case(JsonWriter& json, const ParityCase& one) {
  const engine::ParityOutcome& outcome = one.outcome;
  json.begin_object(Layout::kInline);
  json.field("config", one.config);
  json.field("engine", name(one.cell.config.parallel.engine));
  json.field("mesh", one.cell.mesh());
  json.field("precision", name(one.cell.config.train.precision));
  json.field("recompute", one.cell.recompute());
  json.field("schedule", one.cell.schedule());
  json.field("launcher", launcher(one));
  json.field("threads", one.cell.config.train.threads);
  json.field("numerics", name(one.cell.config.numerics.mode));
  json.field("verdict", name(outcome.verdict));
  json.field("max_rel_loss_diff", outcome.max_rel_loss_diff);
  json.field("max_rel_weight_diff", outcome.max_rel_weight_diff >= 0
                                        ? std::optional(outcome.max_rel_weight_diff)
                                        : std::nullopt);
  json.field("max_rel_grad_norm_diff", outcome.max_rel_grad_norm_diff);
  json.field("resumed_from", one.cell.resumed_from());
  json.field("reason", known(outcome.reason));
  json.key("losses").begin_array(Layout::kInline);
  for (const double loss : one.losses) json.value(loss);
  json.end();
  json.field("heldout_loss", measured(one.heldout_loss));
  json.field("seconds", one.seconds);
  json.end();
}

// What one line of the text is about.
using Row = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string,
                       std::string>;

// Where the run began: at its first step, or from a save of the same mesh or of another.
std::string beginning(const ParityCase& one) {
  if (!one.cell.saved_by) return "new";
  const engine::ParityCell saver{*one.cell.saved_by};
  const bool same = saver.config.parallel.engine == one.cell.config.parallel.engine &&
                    saver.mesh() == one.cell.mesh() && saver.schedule() == one.cell.schedule();
  return same ? "resumed" : "resharded";
}

Row row_of(const ParityCase& one) {
  return {one.config,
          std::string(name(one.cell.config.parallel.engine)),
          std::string(name(one.cell.config.train.precision)),
          std::string(name(one.cell.config.numerics.mode)),
          one.cell.recompute(),
          beginning(one),
          std::string(launcher(one))};
}

struct Tally {
  std::int64_t identical = 0, within = 0, failed = 0;
  double loss = 0, weights = 0;
  void add(const engine::ParityOutcome& outcome) {
    switch (outcome.verdict) {
      case ParityVerdict::kBitIdentical:
        ++identical;
        break;
      case ParityVerdict::kWithinEnvelope:
        ++within;
        break;
      case ParityVerdict::kFailed:
        ++failed;
        break;
    }
    loss = std::max(loss, outcome.max_rel_loss_diff);
    weights = std::max(weights, outcome.max_rel_weight_diff);
  }
};

void pad(std::ostringstream& out, const std::string& text, std::size_t width) {
  out << text << std::string(text.size() < width ? width - text.size() : 0, ' ') << "  ";
}

std::string scientific(double value) {
  std::ostringstream out;
  out.precision(1);
  out << std::scientific << value;
  return value == 0 ? "0" : out.str();
}

void print_row(std::ostringstream& out, const std::vector<std::string>& words) {
  static constexpr std::size_t kWidths[] = {30, 6, 9, 9, 9, 9, 8, 9, 8, 6, 9, 9};
  for (std::size_t i = 0; i < words.size(); ++i) pad(out, words[i], kWidths[i]);
  out << '\n';
}

}  // namespace

std::string parity_json(const Envelope& envelope, const std::vector<ParityDataset>& datasets,
                        const std::vector<ParityCase>& cases) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.key("datasets").begin_array();
  for (const ParityDataset& dataset : datasets) {
    json.begin_object(Layout::kInline);
    json.field("config", dataset.config);
    json.field("digest", dataset.digest);
    json.field("synthetic", dataset.synthetic);
    json.end();
  }
  json.end();
  json.key("cases").begin_array();
  for (const ParityCase& one : cases) write_case(json, one);
  json.end();
  const std::int64_t failed = failures(cases);
  json.field("passed", static_cast<std::int64_t>(cases.size()) - failed);
  json.field("failed", failed);
  json.end();
  return json.take();
}

std::string parity_text(const std::vector<ParityCase>& cases) {
  std::map<Row, Tally> tallies;
  for (const ParityCase& one : cases) tallies[row_of(one)].add(one.outcome);
  std::ostringstream out;
  print_row(out, {"config", "engine", "precision", "numerics", "recompute", "began", "launcher",
                  "identical", "envelope", "failed", "loss", "weights"});
  for (const auto& [row, tally] : tallies) {
    const auto& [config, engine, precision, numerics, recompute, began, launched] = row;
    print_row(out,
              {config, engine, precision, numerics, recompute, began, launched,
               std::to_string(tally.identical), std::to_string(tally.within),
               std::to_string(tally.failed), scientific(tally.loss), scientific(tally.weights)});
  }
  for (const ParityCase& one : cases) {
    if (one.outcome.verdict != ParityVerdict::kFailed) continue;
    out << "failed: " << one.config << ' ' << name(one.cell.config.parallel.engine) << ' '
        << one.cell.mesh() << ' ' << one.cell.schedule() << ' '
        << name(one.cell.config.train.precision) << ' ' << one.cell.recompute() << ' '
        << one.cell.config.train.threads << " threads a rank " << launcher(one)
        << (one.cell.saved_by ? " from " + one.cell.resumed_from() : "") << ": "
        << one.outcome.reason << '\n';
  }
  const std::int64_t failed = failures(cases);
  out << static_cast<std::int64_t>(cases.size()) - failed << " passed, " << failed << " failed\n";
  return out.str();
}

}  // namespace nqd::reports
