// `nqd bench`: its subcommands.
#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <string>

#include "cli/bench/engine.h"
#include "cli/bench/gemm.h"
#include "cli/bench/options.h"
#include "cli/bench/probes.h"
#include "cli/bench/run.h"
#include "cli/command.h"

namespace nqd::cli {
namespace {

using collectives::Collective;

struct Subcommand {
  Collective collective;
  const char* description;
  bool is_pingpong = false;
};
constexpr std::array kSubcommands = {
    Subcommand{Collective::kAllReduce, "Every rank gets the reduction of all ranks' vectors"},
    Subcommand{Collective::kAllGather, "Every rank gets all ranks' shards"},
    Subcommand{Collective::kReduceScatter, "Every rank gets its shard of the reduction"},
    Subcommand{Collective::kBroadcast, "Every rank gets rank 0's vector"},
    Subcommand{Collective::kReduce, "Rank 0 gets the reduction of all ranks' vectors"},
    Subcommand{Collective::kGather, "Rank 0 gets all ranks' shards"},
    Subcommand{Collective::kScatter, "Every rank gets its shard of rank 0's vector"},
    Subcommand{Collective::kAllToAll, "Every rank gets its part of every rank's vector"},
    Subcommand{Collective::kSendRecv,
               "Every rank sends to the next one and receives from the last"},
    Subcommand{Collective::kSendRecv, "Two ranks: a message there and back, half of its time",
               true},
};

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

void add_collective(CLI::App& bench, Context& context, const Subcommand& subcommand) {
  auto flags = std::make_shared<BenchFlags>();
  flags->bench.collective = subcommand.collective;
  if (subcommand.is_pingpong) flags->bench.pair = {0, 1};
  CLI::App* command =
      bench.add_subcommand(collectives::bench_name(flags->bench), subcommand.description);
  add_sweep_flags(*command, *flags);
  const bool reduces = subcommand.collective == Collective::kAllReduce ||
                       subcommand.collective == Collective::kReduceScatter ||
                       subcommand.collective == Collective::kReduce;
  if (reduces) {
    command->add_option("-o,--op", flags->op, "sum, avg, min, max or prod")->capture_default_str();
    command
        ->add_option("--numerics", flags->numerics,
                     "canonical: only algorithms whose bits do not depend on the algorithm and the "
                     "split, --algorithm auto unless one is given; or fast")
        ->capture_default_str();
  }
  command
      ->add_option(
          "--algorithm", flags->algorithms,
          "auto (the default: direct where ranks reach each other's memory), ring, tree, direct, "
          "library (the MPI library's own) or all; commas between several")
      ->delimiter(',');
  command->add_flag("-R,--registered", flags->bench.registered,
                    "vectors in shared buffers, which ranks of one host touch in place");
  if (has_root(subcommand.collective)) {
    command->add_option("-r,--root", flags->bench.root, "rank that gives or gets the vector")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
  }
  if (subcommand.is_pingpong) {
    command->add_option("--pair", flags->pair, "the two ranks")->capture_default_str();
  }
  const bool one_vector = subcommand.collective == Collective::kBroadcast;
  const bool moves_apart = subcommand.collective == Collective::kAllToAll ||
                           subcommand.collective == Collective::kSendRecv;
  if (!one_vector && !moves_apart) {
    command->add_flag("--in-place", flags->bench.in_place, "input and output share memory");
  }
  add_run_flags(*command, *flags);
  command->callback(
      [flags, &context] { context.exit_code = run_collective_bench(*flags, context); });
}

}  // namespace

void add_bench_command(CLI::App& app, Context& context) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Verified measurements of collectives (under mpirun or on threads) and of compute");
  bench->require_subcommand(1);
  for (const Subcommand& subcommand : kSubcommands) add_collective(*bench, context, subcommand);
  add_bench_gemm(*bench, context);
  add_bench_engine(*bench, context);
  add_bench_probes(*bench, context);
}

}  // namespace nqd::cli
