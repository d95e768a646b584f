#include "collectives/bench/timing.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "collectives/bench/bench.h"

namespace nqd::collectives {

std::optional<MedianInterval> median_interval(std::vector<double> samples) {
  constexpr double kQuantile = 1.96;
  const auto n = static_cast<double>(samples.size());
  const double reach = kQuantile * std::sqrt(n);
  const double low = std::floor((n - reach) / 2);
  const double high = std::ceil(1 + (n + reach) / 2);
  if (low < 1 || high > n) return std::nullopt;
  std::sort(samples.begin(), samples.end());
  return MedianInterval{samples[static_cast<std::size_t>(low) - 1],
                        samples[static_cast<std::size_t>(high) - 1]};
}

bool is_tight(const std::vector<double>& samples) {
  constexpr std::size_t kMinSamples = 20;
  if (samples.size() < kMinSamples) return false;
  const auto interval = median_interval(samples);
  return interval &&
         (interval->high - interval->low) / 2 <= kTightInterval * percentile(samples, 0.5);
}

std::size_t next_calls(const std::vector<double>& samples, double elapsed_s, double time_s,
                       std::size_t batch) {
  const std::size_t done = samples.size();
  if (elapsed_s >= time_s || done >= kMaxTimedCalls || is_tight(samples)) return 0;
  const double pace = elapsed_s / static_cast<double>(done);
  const double fit = std::floor((time_s - elapsed_s) / pace);
  // Never more than so far: a few slow first calls would else be all that the estimate knows.
  const std::size_t limit = std::min({batch, done, kMaxTimedCalls - done});
  return fit >= static_cast<double>(limit) ? limit : static_cast<std::size_t>(fit);
}

std::vector<std::size_t> sweep_order(std::size_t rows, int repeat, std::uint64_t seed) {
  std::vector<std::size_t> once(rows);
  std::iota(once.begin(), once.end(), std::size_t{0});
  if (repeat <= 1) return once;
  // Not std::shuffle, whose use of the generator differs between libraries.
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order;
  order.reserve(rows * static_cast<std::size_t>(repeat));
  for (int i = 0; i < repeat; ++i) {
    for (std::size_t left = rows; left > 1; --left) {
      std::swap(once[left - 1], once[static_cast<std::size_t>(random() % left)]);
    }
    order.insert(order.end(), once.begin(), once.end());
  }
  return order;
}

std::uint64_t last_level_cache_bytes() {
  const long level_3 = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const long level_2 = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  const long bytes = level_3 > 0 ? level_3 : level_2;
  if (bytes > 0) return static_cast<std::uint64_t>(bytes);
  throw Error(ExitCode::kUsage, "NQD2104",
              "--cold needs the size of the last-level cache, which this system does not tell",
              "measure without --cold, at sizes that no cache holds");
}

std::uint64_t bench_memory_bytes(const BenchOptions& options) {
  return 3 * options.end_bytes + (options.cold ? 2 * last_level_cache_bytes() : 0);
}

std::string bench_name(const BenchOptions& options) {
  return options.pair ? "pingpong" : std::string(name(options.collective));
}

double repeat_spread(const BenchRow& row) {
  if (row.repeat_p50_s.size() < 2) return 0;
  const auto [low, high] = std::minmax_element(row.repeat_p50_s.begin(), row.repeat_p50_s.end());
  return (*high - *low) / percentile(row.repeat_p50_s, 0.5);
}

}  // namespace nqd::collectives
