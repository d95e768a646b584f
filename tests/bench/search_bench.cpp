// Plans a second: one evaluation (bytes and seconds), and whole searches.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "planner/config/config.h"
#include "planner/estimate/memory_model.h"
#include "planner/estimate/time_model.h"
#include "planner/search/search.h"

namespace nqd::planner::search {
namespace {

// Llama 3 405B on H100s, 16 M tokens a step or as many sequences as `batch`.
Config llama(std::int64_t nodes, std::int64_t batch) {
  const std::string text =
      "model: {preset: llama3-405b}\ncluster: {preset: dgx-h100, nodes: " + std::to_string(nodes) +
      "}\ntrain: {global_batch_size: " + std::to_string(batch) + "}\n";
  return load_config_text(text, "bench.yaml").config;
}

// Plans that fit, all kinds, in the order in which a search meets them.
std::vector<Candidate> fitting(const Config& config) {
  SearchOptions options;
  options.one_a_mesh = false;
  options.keep = 20'000;
  std::vector<Candidate> candidates;
  for (const Score& score : search(config, options).found.best) {
    candidates.push_back(score.candidate);
  }
  return candidates;
}

void evaluate(benchmark::State& state) {
  const Config config = llama(2048, 2048);
  const std::vector<Candidate> candidates = fitting(config);
  MemoryModel memory(config);
  TimeModel time(config);
  std::size_t i = 0;
  for (auto _ : state) {
    const Candidate& candidate = candidates[i];
    benchmark::DoNotOptimize(memory.worst(candidate).total_bytes);
    benchmark::DoNotOptimize(time.step(candidate).step_s);
    i = i + 1 < candidates.size() ? i + 1 : 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(evaluate);

// Arguments: nodes of eight, global batch, threads.
void search_llama(benchmark::State& state) {
  const Config config = llama(state.range(0), state.range(1));
  SearchOptions options;
  options.threads = static_cast<int>(state.range(2));
  std::int64_t evaluated = 0;
  for (auto _ : state) {
    const SearchResult result = search(config, options);
    evaluated += result.found.evaluated;
    state.counters["considered"] = static_cast<double>(result.found.considered);
    state.counters["fitting"] = static_cast<double>(result.found.fitting);
  }
  state.SetItemsProcessed(evaluated);
}
// 16,384 devices; 98,304 = 2^15·3 and 100,352 = 2^11·7^2, with batches that their factors divide.
BENCHMARK(search_llama)
    ->Args({2048, 2048, 1})
    ->Args({2048, 2048, 2})
    ->Args({12288, 12288, 2})
    ->Args({12544, 12544, 2})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace nqd::planner::search

BENCHMARK_MAIN();
