// One file a command: each adds its subcommand, turns flags into an options struct and returns an
// exit code. Errors leave as nqd::Error; main.cpp prints them and exits.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context {
  std::vector<std::string> argv;
  int exit_code = 0;  // set by the command that ran
};

void add_bench_command(CLI::App& app, Context& context);
void add_calc_command(CLI::App& app, Context& context);
void add_calibrate_command(CLI::App& app, Context& context);
void add_checkpoint_command(CLI::App& app, Context& context);
void add_data_command(CLI::App& app, Context& context);
void add_diagnose_command(CLI::App& app, Context& context);
void add_doctor_command(CLI::App& app, Context& context);
void add_explain_command(CLI::App& app, Context& context);
void add_export_command(CLI::App& app, Context& context);
void add_import_command(CLI::App& app, Context& context);
void add_mesh_plan_command(CLI::App& app, Context& context);
void add_parity_command(CLI::App& app, Context& context);
void add_report_command(CLI::App& app, Context& context);
void add_scale_command(CLI::App& app, Context& context);
void add_schema_command(CLI::App& app, Context& context);
void add_search_command(CLI::App& app, Context& context);
void add_simulate_command(CLI::App& app, Context& context);
void add_supervise_command(CLI::App& app, Context& context);
void add_train_command(CLI::App& app, Context& context);
void add_validate_model_command(CLI::App& app, Context& context);

}  // namespace nqd::cli
