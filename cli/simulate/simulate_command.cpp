// `nqd simulate collective|pipeline`: what a cluster would do, step by step, on virtual ranks.
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/simulate/simulate.h"

namespace nqd::cli {

void add_simulate_command(CLI::App& app, Context& context) {
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Run a collective or a pipeline schedule step by step on virtual ranks");
  simulate->require_subcommand(1);
  add_simulate_collective(*simulate, context);
  add_simulate_pipeline(*simulate, context);
}

}  // namespace nqd::cli
