// GFLOP/s of every matrix product of the two bench models through the seam, and of all of them
// together ("all": each distinct shape once). Build once per NQD_GEMM value and
// run the programs in turn to compare libraries.
#include <benchmark/benchmark.h>

#include <string>

#include "engine/gemm/gemm.h"
#include "engine/gemm/gemm_bench.h"
#include "tests/bench/bench_models.h"

namespace nqd::bench {
namespace {

void report_products(benchmark::State& state, const planner::ModelSpec& model,
                     std::int64_t micro_batch_size) {
  constexpr int kSamples = 21;
  double flops = 0;
  double seconds = 0;
  for (auto _ : state) {
    for (const auto& row : engine::run_gemm_bench(model, micro_batch_size, kSamples)) {
      state.counters[row.layout + ":" + std::to_string(row.m) + "x" + std::to_string(row.n) + "x" +
                     std::to_string(row.k)] = row.gflops;
      flops += row.gflops * row.p50_s;
      seconds += row.p50_s;
    }
  }
  state.counters["all"] = flops / seconds;
  const engine::GemmLibrary library = engine::gemm_library();
  state.SetLabel(library.name + " " + library.version + " " + library.core);
}

BENCHMARK_CAPTURE(report_products, quickstart, quickstart_model(), kQuickstartMicroBatch)
    ->Iterations(1);
BENCHMARK_CAPTURE(report_products, six_layer, six_layer_model(), kSixLayerMicroBatch)
    ->Iterations(1);

void copy_bandwidth(benchmark::State& state) {
  for (auto _ : state) state.counters["bytes/s"] = engine::measure_copy_bandwidth();
}
BENCHMARK(copy_bandwidth)->Iterations(1);

}  // namespace
}  // namespace nqd::bench

BENCHMARK_MAIN();
