// `nqd validate-model [TABLE…]`: predictions of published measurements, with their errors.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "planner/import/published/published.h"
#include "planner/import/published/shipped.h"
#include "planner/validation/evaluate.h"
#include "planner/validation/fit.h"
#include "planner/validation/report.h"
#include "reports/validate_json.h"

namespace nqd::cli {
namespace {

struct Options {
  std::vector<std::string> paths;
  planner::FitOptions fit;
  bool json = false;
  bool rows = false;
  bool markdown = false;
  bool fits = false;
  bool leave_one_out = false;
};

using Tables = std::vector<planner::PublishedTable>;

Tables read_tables(const std::vector<std::string>& paths, int& exit_code) {
  Tables tables;
  for (const std::string& path : paths) {
    // One file that is no table does not hide what the others say.
    try {
      tables.push_back(planner::read_published(path));
    } catch (const Error& error) {
      if (tables.empty() && &path == &paths.back()) throw;
      log::error("[" + error.code() + "]: " + error.what() + "\n  hint: " + error.hint());
      exit_code = static_cast<int>(error.exit_code());
    }
  }
  if (!paths.empty()) return tables;
  for (const planner::ShippedFile& file : planner::shipped_tables()) {
    tables.push_back(planner::read_published_text(std::string(file.text), std::string(file.name)));
  }
  return tables;
}

std::vector<const planner::PublishedTable*> pointers(const Tables& tables) {
  std::vector<const planner::PublishedTable*> result;
  for (const planner::PublishedTable& table : tables) result.push_back(&table);
  return result;
}

// Of the shipped tables, unless constants have changed since.
std::vector<planner::LeftOut> left_out_of(const Options& options, const Tables& tables) {
  if (!options.paths.empty()) return {};
  planner::ShippedLeftOut shipped = planner::shipped_left_out();
  if (shipped.constants != planner::constants_digest(pointers(tables))) return {};
  return std::move(shipped.tables);
}

void print_left_out(const Options& options, const Tables& tables) {
  const std::vector<planner::LeftOut> left_out =
      planner::leave_one_table_out(pointers(tables), options.fit);
  if (options.json) {
    std::cout << reports::left_out_json(planner::constants_digest(pointers(tables)), left_out);
  } else {
    std::cout << planner::render_left_out(left_out);
  }
}

void print_scores(const Options& options, const Tables& tables) {
  std::vector<planner::TableReport> reports;
  for (const planner::PublishedTable& table : tables) reports.push_back(planner::judge(table));
  const std::vector<planner::LeftOut> left_out = left_out_of(options, tables);
  if (options.json) {
    std::cout << reports::validate_json(reports, left_out);
  } else if (options.markdown) {
    std::cout << planner::render_scores_markdown(reports, left_out);
  } else {
    if (options.rows) std::cout << planner::render_rows(reports) << '\n';
    std::cout << planner::render_scores(reports, left_out);
  }
}

int run(const Options& options) {
  int exit_code = 0;
  const Tables tables = read_tables(options.paths, exit_code);
  if (tables.empty()) return exit_code;
  if (options.fits) {
    std::cout << planner::render_constants(planner::fit(pointers(tables), options.fit));
  } else if (options.leave_one_out) {
    print_left_out(options, tables);
  } else {
    print_scores(options, tables);
  }
  return exit_code;
}

}  // namespace

void add_validate_model_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "validate-model", "Predict published measurements and print how far off the planner is");
  command
      ->add_option("table", options->paths,
                   "tables of published rows (JSON); without any, the shipped ones")
      ->type_name("TABLE");
  command->add_flag("--rows", options->rows, "print every row");
  auto* json = command->add_flag("--json", options->json, "print tables and rows as JSON");
  command->add_flag("--markdown", options->markdown, "print the table of docs/accuracy.md")
      ->excludes(json);
  auto* fit = command->add_flag("--fit", options->fits,
                                "print the constants that fit the tables best, for preset files");
  command
      ->add_flag("--leave-one-out", options->leave_one_out,
                 "print the error of each table with constants fitted to the others")
      ->excludes(fit);
  command
      ->add_option("--free", options->fit.free,
                   "constants to fit, as stacks.megatron-2022.host_layer_s; * stands for every "
                   "preset or field, + joins presets that share the value")
      ->type_name("KIND.PRESET.FIELD");
  command->add_option("--iterations", options->fit.max_iterations, "of the fit, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->footer(
      "Errors are shares of the measurement. The null model scales FLOPs (bytes of state, bytes on "
      "the wire) by one constant a table. Exit status: 0 whatever the errors are, 2 a table cannot "
      "be read.");
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli
