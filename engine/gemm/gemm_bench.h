// Rates of the compute side of a calibration: the matrix products of a model, and memory.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/bench/bench.h"
#include "planner/spec.h"

namespace nqd::engine {

enum class GemmKind : bool { kLibrary, kFixed };

// Times the distinct matrix products of one forward and backward pass of the CPU engine: linear
// layers as NT (forward), NN (input gradient) and TN (weight gradient), attention as its largest
// row block. Single-threaded. `iterations` >= 1 samples each after one warm-up; the shapes take
// turns, so that a slow moment of the machine does not fall on one shape alone. kFixed: the
// products of canonical numerics, as one chain each (engine/gemm/fixed); rows say so as their
// library.
std::vector<collectives::GemmRow> run_gemm_bench(const planner::ModelSpec& model,
                                                 std::int64_t micro_batch_size, int iterations,
                                                 GemmKind kind = GemmKind::kLibrary);

// Bytes read plus bytes written per second by one thread in a[i] = b[i] + s · c[i] over arrays far
// larger than the caches (the best of several passes; the read that a store causes is not counted).
struct CopyBandwidth {
  double bytes_per_s = 0;
  double bytes_per_cpu_s = 0;  // by the time that the thread had a CPU
};
CopyBandwidth measure_copy();
double measure_copy_bandwidth();  // bytes_per_s of it

// Seconds that the calling thread has had a CPU.
double thread_cpu_s();

}  // namespace nqd::engine
