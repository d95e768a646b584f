// `nqd schema config|reference`: what a config file may hold, for editors and for people.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"
#include "planner/config/config.h"

namespace nqd::cli {

void add_schema_command(CLI::App& app, Context& /*context*/) {
  CLI::App* command = app.add_subcommand("schema", "Print what a config file may hold.");
  command->require_subcommand(1);
  command->add_subcommand("config", "JSON Schema (draft 7) of config files, for editors")
      ->callback([] { std::cout << planner::config_json_schema(); });
  command->add_subcommand("reference", "every key with type, default and meaning, in Markdown")
      ->callback([] { std::cout << planner::config_reference_markdown(); });
}

}  // namespace nqd::cli
