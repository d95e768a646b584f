#include "cli/canary/canary_command.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "cli/bench/session.h"
#include "cli/canary/canary_run.h"
#include "cli/command.h"
#include "engine/parallel/agree.h"
#include "reports/canary_json.h"

namespace nqd::cli {
namespace {

struct Options {
  SessionFlags session;
  std::string calibration;
};

// Collective. What rank 0 read counts: the others judge by the same.
void share(collectives::Communicator& world, engine::CanaryExpectation& expectation) {
  std::array figures{expectation.gemm_flops, expectation.copy_bytes_per_s,
                     expectation.inside_link_bytes_per_s, expectation.across_link_bytes_per_s};
  world.broadcast(std::as_writable_bytes(std::span(figures)), 0);
  expectation.gemm_flops = figures[0];
  expectation.copy_bytes_per_s = figures[1];
  expectation.inside_link_bytes_per_s = figures[2];
  expectation.across_link_bytes_per_s = figures[3];
}

int run_rank(collectives::Communicator& world, const Options& options, const Context& context) {
  const bool speaker = world.rank() == 0;
  engine::CanaryExpectation expectation;
  std::optional<AtomicFile> output;
  engine::attempt_together(world, [&] {
    check_canary_memory(world);
    if (speaker && !options.calibration.empty()) {
      expectation = read_expectation(options.calibration);
    }
    if (speaker && !options.session.output.empty()) output.emplace(options.session.output);
  });
  share(world, expectation);
  const engine::CanaryResult result = engine::run_canary(world, expectation);
  const std::string document =
      canary_document(world, result, context.argv, options.session.ranks.value_or(world.size()));
  engine::attempt_together(world, [&] {
    if (!speaker) return;
    if (output) {
      output->write(document);
      output->commit();
    }
    std::cout << (options.session.json ? document : reports::canary_text(result)) << std::flush;
    if (!options.session.json) print_verdicts(canary_verdicts(result));
  });
  return result.healthy() ? 0 : static_cast<int>(ExitCode::kNo);
}

int run(const Options& options, const Context& context) {
  return run_ranks(options.session, context, {}, [&](collectives::Communicator& world) {
    return run_rank(world, options, context);
  });
}

}  // namespace

void add_canary_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "canary", "Time every device and link for a few seconds, and name what is slow");
  command
      ->add_option("--calibration,--cluster", options->calibration,
                   "also compare with what `nqd calibrate` wrote")
      ->type_name("FILE");
  add_session_flags(*command, options->session);
  command->footer("Exit status: 0 nothing is slow, 1 something is, and is named.");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli
