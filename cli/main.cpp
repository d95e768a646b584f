// The composition root: commands in, exit code out. Nothing else in this tree ends the process.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/accept/accept_command.h"
#include "cli/canary/canary_command.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "collectives/communicator.h"
#include "collectives/world.h"
#include "planner/config/source.h"
#include "planner/config/suggest.h"
#include "reports/envelope.h"
#include "reports/plan_json.h"

namespace nqd::cli {
namespace {

void add_commands(CLI::App& app, Context& context) {
  add_mesh_plan_command(app, context);
  add_search_command(app, context);
  add_validate_model_command(app, context);
  add_import_command(app, context);
  add_export_command(app, context);
  add_accept_command(app, context);
  add_bench_command(app, context);
  add_calibrate_command(app, context);
  add_canary_command(app, context);
  add_checkpoint_command(app, context);
  add_diagnose_command(app, context);
  add_calc_command(app, context);
  add_simulate_command(app, context);
  add_data_command(app, context);
  add_supervise_command(app, context);
  add_train_command(app, context);
  add_parity_command(app, context);
  add_scale_command(app, context);
  add_report_command(app, context);
  add_explain_command(app, context);
  add_schema_command(app, context);
  add_doctor_command(app, context);
}

int report(const Error& error) {
  const std::string code = error.code().empty() ? "" : "[" + error.code() + "]: ";
  if (!error.quiet()) {
    log::error(code + error.what() + (error.hint().empty() ? "" : "\n  hint: " + error.hint()));
  }
  return static_cast<int>(error.exit_code());
}

// Of the processes that a launcher started; launchers that disagree leave each on its own.
bool is_first_process() {
  try {
    return collectives::read_launch_identity().rank == 0;
  } catch (const Error&) {
    return true;
  }
}

// Whether a failure is printed as JSON too. The arguments are read as they were typed, for they may
// be what failed. Commands that run as many processes say what went wrong on stderr alone.
bool prints_json(const std::vector<std::string>& argv) {
  if (argv.size() < 2) return false;
  const auto end = std::find(argv.begin(), argv.end(), "--");
  if (std::find(argv.begin(), end, "--json") == end) return false;
  const std::string& command = argv[1];
  return command != "train" && command != "bench" && is_first_process();
}

void print_failure(const Diagnostic& diagnostic) {
  std::cout << reports::failure_json({diagnostic}) << std::flush;
}

void print_failure(const Error& error) {
  if (const auto* config = dynamic_cast<const ConfigError*>(&error)) {
    std::cout << reports::failure_json(config->diagnostics()) << std::flush;
    return;
  }
  Diagnostic diagnostic;
  diagnostic.code = error.code();
  diagnostic.message = error.what();
  diagnostic.hint = error.hint();
  print_failure(diagnostic);
}

// What is wrong with the command line, which has no code of its own.
Diagnostic usage_error(const CLI::App& app, const Context& context, const CLI::ParseError& error) {
  Diagnostic diagnostic;
  diagnostic.message = error.what();
  diagnostic.hint = "`nqd --help`, or `nqd COMMAND --help`";
  const bool word = context.argv.size() > 1 && !context.argv[1].starts_with('-');
  if (word && app.get_subcommands().empty()) {
    const std::string& asked = context.argv[1];
    diagnostic.message = "there is no command \"" + planner::printable(asked) + "\"";
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    const auto meant = planner::closest(asked, {names.begin(), names.end()});
    diagnostic.hint = meant ? "did you mean " + *meant + "?" : "`nqd --help` lists the commands";
  }
  return diagnostic;
}

int run(int argc, char** argv) {
  Context context{{argv, argv + argc}, 0};
  CLI::App app("Plan, measure and run distributed training, and prove that the three agree.",
               "nqd");
  app.set_version_flag("--version", "nqd " + reports::build_info().version + " (" +
                                        reports::build_info().git_commit + ")");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  add_commands(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    const Diagnostic diagnostic = usage_error(app, context, error);
    if (prints_json(context.argv)) print_failure(diagnostic);
    log::error(diagnostic.message + "\n  hint: " + diagnostic.hint);
    return static_cast<int>(ExitCode::kUsage);
  } catch (const Error& error) {
    if (prints_json(context.argv)) print_failure(error);
    throw;
  }
  // A result that did not reach its reader is no success.
  std::cout.flush();
  if (!std::cout) {
    throw Error(ExitCode::kFault, "NQD4003", "writing to standard output failed",
                "free space where it is redirected to, or read the whole of the pipe");
  }
  return context.exit_code;
}

}  // namespace
}  // namespace nqd::cli

int main(int argc, char** argv) {
  int code = 0;
  try {
    code = nqd::cli::run(argc, argv);
  } catch (const nqd::Error& error) {
    code = nqd::cli::report(error);
  } catch (const std::bad_alloc&) {
    nqd::log::error("out of memory: the host refused an allocation");
    code = static_cast<int>(nqd::ExitCode::kFault);
  } catch (const std::exception& error) {
    nqd::log::error(std::string("internal error: ") + error.what());
    code = static_cast<int>(nqd::ExitCode::kFault);
  }
  // Peers may be gone: after a failure MPI_Finalize could wait for ever.
  if (code != 0 && code != static_cast<int>(nqd::ExitCode::kStopped)) {
    nqd::collectives::abort_process(code);
  }
  return code;
}
