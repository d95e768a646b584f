// The composition root: commands in, exit code out. Nothing else in this tree ends the process.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "collectives/communicator.h"
#include "collectives/world.h"
#include "reports/envelope.h"

namespace nqd::cli {
namespace {

void add_commands(CLI::App& app, Context& context) {
  add_mesh_plan_command(app, context);
  add_search_command(app, context);
  add_validate_model_command(app, context);
  add_import_command(app, context);
  add_export_command(app, context);
  add_bench_command(app, context);
  add_calibrate_command(app, context);
  add_calc_command(app, context);
  add_simulate_command(app, context);
  add_data_command(app, context);
  add_train_command(app, context);
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
    log::error(std::string(error.what()) + "\n  hint: `nqd --help`, or `nqd COMMAND --help`");
    return static_cast<int>(ExitCode::kUsage);
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
  if (code != 0) nqd::collectives::abort_process(code);
  return code;
}
