#include "cli/bench/gemm.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/gemm/gemm.h"
#include "engine/gemm/gemm_bench.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

struct Options {
  ConfigFlags config;
  int iterations = 20;
  bool fixed = false;
  bool json = false;
  std::string output;
};

void print_table(const collectives::BenchResult& result) {
  std::array<char, 120> line{};
  const auto print = [&line] { std::cout << line.data() << '\n'; };
  std::snprintf(line.data(), line.size(), "%8s %8s %8s  %-6s %12s %10s", "m", "n", "k", "layout",
                "p50", "GFLOP/s");
  print();
  for (const collectives::GemmRow& row : result.gemm_rows) {
    std::snprintf(line.data(), line.size(), "%8lld %8lld %8lld  %-6s %12s %10.1f",
                  static_cast<long long>(row.m), static_cast<long long>(row.n),
                  static_cast<long long>(row.k), row.layout.c_str(),
                  format_seconds(row.p50_s).c_str(), row.gflops);
    print();
  }
  std::cout << "memory: " << format_bytes(result.memory_bandwidth_bytes_per_s)
            << " a second read and written by one thread\n";
}

int run(const Options& options, const Context& context) {
  const planner::LoadedConfig loaded = load_or_throw(options.config, true);
  if (loaded.config.model.family != "gpt") {
    throw Error(
        ExitCode::kUsage, "NQD1401",
        "bench gemm needs the shapes of a gpt model; `" + loaded.config.model.family + "` has none",
        "give a config with a gpt model such as configs/quickstart.yaml");
  }
  std::optional<AtomicFile> output;
  if (!options.output.empty()) output.emplace(options.output);
  reports::Envelope envelope = reports::begin_envelope("bench", context.argv);
  envelope.backend = "local";
  envelope.config_path = loaded.config.source;
  envelope.config_yaml = loaded.resolved_yaml;
  envelope.resolved = loaded.resolved;
  const engine::GemmLibrary library =
      options.fixed ? engine::fixed_gemm_library() : engine::gemm_library();
  envelope.libraries.emplace_back("gemm",
                                  library.name + " " + library.version + " (" + library.core + ")");
  collectives::BenchResult result;
  result.gemm_rows = engine::run_gemm_bench(
      loaded.config.model, loaded.config.train.micro_batch_size, options.iterations,
      options.fixed ? engine::GemmKind::kFixed : engine::GemmKind::kLibrary);
  result.memory_bandwidth_bytes_per_s = engine::measure_copy_bandwidth();
  envelope.ended_at = reports::now_utc();
  const std::string document = reports::bench_json(envelope, result);
  if (options.json) {
    std::cout << document;
  } else {
    std::cout << library.name << " " << library.version << ", core " << library.core << '\n';
    print_table(result);
  }
  if (output) {
    output->write(document);
    output->commit();
  }
  return 0;
}

}  // namespace

void add_bench_gemm(CLI::App& bench, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "gemm", "Matrix products of a model's layers, and memory bandwidth, on one core");
  add_config_flags(*command, options->config);
  command->add_option("-n,--iterations", options->iterations, "timed calls a shape")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_flag("--fixed", options->fixed,
                    "time the fixed-order products of canonical numerics, not the library's");
  command->add_flag("--json", options->json, "print the evidence document on stdout");
  command->add_option("--output", options->output, "write the evidence document here");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli
