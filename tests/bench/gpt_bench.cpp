// Tokens per second of one micro-batch, forward and backward, on one thread.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "base/ledger.h"
#include "engine/gemm/gemm.h"
#include "engine/models/gpt.h"
#include "tests/bench/bench_models.h"

namespace nqd::bench {
namespace {

void run_micro_batches(benchmark::State& state, const planner::ModelSpec& spec,
                       std::int64_t micro_batch_size, bool with_backward) {
  MemoryLedger ledger;
  engine::Gpt model(spec, micro_batch_size, ledger);
  model.initialize(1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(micro_batch_size * spec.sequence));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * 2654435761U % static_cast<std::size_t>(spec.vocab));
  }
  for (auto _ : state) {
    double loss = model.forward(tokens, tokens);
    if (with_backward) model.backward(1.0F);
    benchmark::DoNotOptimize(loss);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tokens.size()));
  state.SetLabel(engine::gemm_library().name + " " + engine::gemm_library().core);
}

BENCHMARK_CAPTURE(run_micro_batches, quickstart_forward, quickstart_model(), kQuickstartMicroBatch,
                  false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run_micro_batches, quickstart, quickstart_model(), kQuickstartMicroBatch, true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run_micro_batches, six_layer, six_layer_model(), kSixLayerMicroBatch, true)
    ->Unit(benchmark::kMillisecond)
    ->MinTime(5);

}  // namespace
}  // namespace nqd::bench

BENCHMARK_MAIN();
