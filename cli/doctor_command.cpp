// `nqd doctor`: what this machine and build can do, and what to mend.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/machine_checks.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

struct Options {
  bool json = false;
};

std::ptrdiff_t count(const std::vector<reports::MachineCheck>& checks, std::string_view status) {
  return std::count_if(checks.begin(), checks.end(),
                       [&](const reports::MachineCheck& check) { return check.status == status; });
}

void print_text(const std::vector<reports::MachineCheck>& checks) {
  std::cout << std::left;
  for (const reports::MachineCheck& check : checks) {
    std::cout << std::setw(9) << check.status << std::setw(20) << check.name << check.detail
              << "\n";
    if (!check.advice.empty())
      std::cout << std::setw(29) << ""
                << "-> " << check.advice << "\n";
  }
  std::cout << "\n"
            << count(checks, "ok") << " ok, " << count(checks, "warn") << " to know, "
            << count(checks, "missing") << " missing\n";
}

int run(const Options& options, const Context& context) {
  const reports::Envelope envelope = reports::begin_envelope("doctor", context.argv);
  const std::vector<reports::MachineCheck> checks = check_machine(envelope.host);
  if (options.json) {
    std::cout << reports::doctor_json(envelope, checks);
  } else {
    print_text(checks);
  }
  return static_cast<int>(count(checks, "missing") == 0 ? ExitCode::kOk : ExitCode::kEnvironment);
}

}  // namespace

void add_doctor_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("doctor", "What this machine and build can do");
  command->add_flag("--json", options->json, "print an evidence document");
  command->footer(
      "Exit status: 0 nqd works here (warnings say what is slower), 3 something that it "
      "needs is missing.");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli
