// How long and in which order a sweep measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace nqd::collectives {

struct MedianInterval {
  double low = 0;
  double high = 0;
};
// 95 % interval of the median without a model of the distribution: the order statistics of ranks
// ⌊(n − 1.96√n)/2⌋ and ⌈1 + (n + 1.96√n)/2⌉ (Le Boudec, "Performance Evaluation of Computer and
// Communication Systems", 2010, theorem 2.1 by the normal approximation). Nothing for samples so
// few that the first rank would be 0.
std::optional<MedianInterval> median_interval(std::vector<double> samples);

// Whether the interval's half width is at most kTightInterval of the median, from 20 samples on.
bool is_tight(const std::vector<double>& samples);

// How many calls a time-bounded measurement makes next, after `samples` in `elapsed_s`; 0 = enough.
// At most `batch`, and no more than the time left holds at the pace so far.
std::size_t next_calls(const std::vector<double>& samples, double elapsed_s, double time_s,
                       std::size_t batch);

// Indices of `rows`, each `repeat` times: ascending for one repeat, else every repeat in an order
// of its own, the same for the same seed on every machine.
std::vector<std::size_t> sweep_order(std::size_t rows, int repeat, std::uint64_t seed);

}  // namespace nqd::collectives
