#include "cli/accept/accept_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/accept/acceptance_run.h"
#include "cli/command.h"
#include "cli/supervise/hosts.h"
#include "reports/accept_json.h"

namespace nqd::cli {
namespace {

struct Options {
  AcceptOptions accept;
  std::string launcher = "mpirun";
  std::string output = "runs/accept";
  int ranks = 0;  // 0: not given
  bool json = false;
};

AcceptOptions resolved(const Options& options) {
  AcceptOptions accept = options.accept;
  accept.folder = options.output;
  accept.threads = options.launcher == "threads";
  if (!accept.hosts.empty()) {
    accept.ranks = HostPool(parse_hosts("--hosts", accept.hosts), {}).slots();
  }
  if (options.ranks > 0) accept.ranks = options.ranks;
  return accept;
}

int run(const Options& options, const Context& context) {
  const AcceptOptions accept = resolved(options);
  std::error_code error;
  std::filesystem::create_directories(accept.folder, error);
  AtomicFile index(accept.folder / "accept.json");
  reports::Envelope envelope = reports::begin_envelope("accept", context.argv);
  envelope.world_size_asked = envelope.world_size_actual = accept.ranks;
  AcceptanceRun run(accept, context.argv.front());
  const reports::Acceptance result =
      run.run([](const std::string& step) { log::info("accept: " + step); });
  envelope.ended_at = reports::now_utc();
  const std::string document = accept_json(envelope, result);
  write_file(accept.folder / "accept.md", accept_markdown(envelope, result));
  index.write(document);
  index.commit();
  std::cout << (options.json ? document : accept_text(result));
  if (!options.json) std::cout << "raw documents in " << accept.folder.string() << '\n';
  return result.accepted() ? 0 : static_cast<int>(ExitCode::kNo);
}

}  // namespace

void add_accept_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "accept", "Is a cluster fit to train on? Canary, fabric sweeps, configs, two-rank parity");
  command
      ->add_option("cluster", options->accept.cluster,
                   "calibration that `nqd calibrate` wrote, a file with a cluster section, or a "
                   "preset: what is promised; default: nothing is")
      ->type_name("CLUSTER");
  command
      ->add_option("--ranks", options->ranks,
                   "of canary and sweeps; default 2, or those of --hosts")
      ->check(CLI::Range(2, 100'000));
  command->add_option("--hosts", options->accept.hosts, "where mpirun starts them: a:8,b:8")
      ->type_name("HOST[:RANKS],...");
  command->add_option("--launcher", options->launcher, "of the ranks")
      ->check(CLI::IsMember({"mpirun", "threads"}))
      ->capture_default_str();
  command->add_option("--end", options->accept.end, "largest message of the sweeps")
      ->capture_default_str();
  command
      ->add_option("--configs", options->accept.configs,
                   "configs, or folders of them; those in a folder `invalid` have to be rejected")
      ->capture_default_str();
  command->add_option("--workload", options->accept.workload, "config of the two-rank parity")
      ->capture_default_str();
  command->add_option("--set", options->accept.overrides, "override a value of the workload")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--output", options->output, "folder for the raw documents")
      ->capture_default_str();
  command->add_flag("--json", options->json, "print the index document on stdout");
  command->footer(
      "Exit status: 0 accepted, 1 a step failed: the table says which, and what to do.");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli
