#include "cli/bench/engine.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "cli/bench/session.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "engine/bench/engine_bench.h"
#include "engine/cuda/device.h"
#include "engine/cuda/make_cuda_device.h"
#include "engine/train/make_device.h"
#include "planner/reference/reference_plan.h"

namespace nqd::cli {
namespace {

struct Options {
  ConfigFlags config;
  SessionFlags session;
  engine::EngineBenchOptions bench;
  std::string device = "cpu";
};

void print_row(const collectives::KernelRow& row) {
  std::printf("  %-20s %8lld %8lld %8lld %10.2f %12s %10.3f\n", row.kernel.c_str(),
              static_cast<long long>(row.m), static_cast<long long>(row.n),
              static_cast<long long>(row.k), row.calls, format_seconds(row.p50_s).c_str(),
              row.units > 0 ? 1e9 * row.p50_s / row.units : 0.0);
}

// Dealt out to the ranks of a host in turn.
std::unique_ptr<engine::Device> make_cuda_device_of(std::int64_t place) {
  const auto devices = static_cast<std::int64_t>(engine::cuda_status().devices.size());
  return engine::make_cuda_device(static_cast<int>(place % std::max<std::int64_t>(devices, 1)), [] {
    return std::string("the operands of single kernels, or a step of the config");
  });
}

int run(const Options& options, const Context& context) {
  const planner::LoadedConfig loaded = load_or_throw(options.config, true);
  if (const auto refusal = planner::engine_refusal(loaded.config)) {
    throw Error(ExitCode::kNo, "NQD1401", "nqd's own engine cannot run " + refusal->what,
                refusal->hint);
  }
  if (options.device == "cuda") {
    engine::require_device({.kind = engine::DeviceKind::kCuda}, engine::solo_config(loaded.config));
  }
  return run_session(
      options.session, context, {.ranks = 1},
      [&](collectives::Communicator& world, collectives::BenchResult& result, bool table) {
        engine::EngineBenchOptions bench = options.bench;
        if (options.device == "cuda") bench.make_device = make_cuda_device_of;
        if (table) {
          std::printf("# %-20s %8s %8s %8s %10s %12s %10s\n", "kernel", "m", "n", "k", "calls/step",
                      "p50", "ns/unit");
          bench.on_row = print_row;
        }
        result.kernel_rows = engine::run_engine_bench(world, loaded.config, bench);
        const auto cpus = result.machine.hosts.empty() ? 0 : result.machine.hosts[0].usable_cpus;
        for (collectives::KernelRow& row : result.kernel_rows) row.cpus = cpus;
      });
}

}  // namespace

void add_bench_engine(CLI::App& bench, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "engine", "The training engine's kernels on a config's shapes, on all ranks at once");
  add_config_flags(*command, options->config);
  command->add_option("--device", options->device, "whose kernels: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("-n,--iterations", options->bench.iterations, "timed calls in each round")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--rounds", options->bench.rounds, "rounds over all kernels")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  add_session_flags(*command, options->session);
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli
