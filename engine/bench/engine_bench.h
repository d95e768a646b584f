// Rates of the training engine's kernels on this machine, as planner/reference/step_time.h uses
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "planner/spec.h"

namespace nqd::engine {

struct EngineBenchOptions {
  int iterations = 10;  // timed calls of a kernel, and steps, in each round; at least 1
  int rounds = 3;       // of all kernels, one after the other; at least 1
  std::function<void(const collectives::KernelRow&)> on_row = {};  // of the last round, on rank 0
  // The device of the calling rank, the `place`-th of its host, for each round anew; empty: the
  // config's threads of the CPU.
  std::function<std::unique_ptr<Device>(std::int64_t place)> make_device = {};
};

// The config that a rank runs alone in a bench: one micro-batch on a mesh of one rank, without
// recomputation.
planner::Config solo_config(const planner::Config& config);
// A smaller model of the other kind (norm, activation, positions, grouped queries, biases), whose
// kernels the fit needs too: other sizes, and the kernels that `solo` does not have.
planner::Config other_config(const planner::Config& solo);

// Collective. All ranks time the kernels of a step of solo_config, then those of other_config, then
// whole steps, each kernel on all ranks at once. A row's samples are those of the rank whose median
// is highest; the same rows on every rank. Precondition: the engine runs `config`.
std::vector<collectives::KernelRow> run_engine_bench(collectives::Communicator& world,
                                                     const planner::Config& config,
                                                     const EngineBenchOptions& options);

}  // namespace nqd::engine
