// The flags of `nqd bench COLLECTIVE`.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/session.h"
#include "collectives/bench/bench.h"

namespace CLI {
class App;
}

namespace nqd::cli {

// As given; `bench` holds those that need no parsing.
struct BenchFlags {
  SessionFlags session;
  collectives::BenchOptions bench;
  std::string begin = "4K";
  std::string end = "64M";
  std::string step;
  std::string dtype = "float32";
  std::string op = "sum";
  std::string numerics = "fast";
  std::vector<std::string> algorithms;
  int check = 1;
  std::string time;
  std::string pair = "0,1";  // of a pingpong
  std::string backend = "auto";
  bool graph = false;  // NCCL's calls as CUDA graphs
  bool check_calls = false;
  std::string cluster;
  std::string compare;
  double tolerance = 0.1;
  std::string append;
  std::string expect;
};

// --begin to --cold: what is measured, and how often.
void add_sweep_flags(CLI::App& command, BenchFlags& flags);

// --ranks to --expect: who takes part, and where the results go.
void add_run_flags(CLI::App& command, BenchFlags& flags);

// Throws Error (kUsage, NQD2104) for a text that names no size, type, operation, algorithm,
// duration or pair.
collectives::BenchOptions parsed_options(const BenchFlags& flags);

}  // namespace nqd::cli
