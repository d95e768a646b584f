// The rows of a sweep as curves: one series an algorithm, its plateau, and the α–β line through it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/bench/bench.h"

namespace nqd::collectives {

// Bandwidth is judged on a plateau alone: below it a call's time is mostly latency, and its
// bandwidth says nothing of the fabric (an 8-byte row of a healthy fabric shows megabytes a
// second). At 10 µs a call, 1 MiB is where a 100 Gb/s link spends most of its time on bytes.
inline constexpr std::uint64_t kPlateauMinBytes = std::uint64_t{1} << 20;
// Rows within this share of the series' best bus bandwidth belong to its plateau: repeated
// measurements of one size on shared hosts differ by up to 30 %.
inline constexpr double kPlateauShare = 0.7;

// Rows that differ in their bytes alone, ascending. Pointers into the rows given.
using Series = std::vector<const BenchRow*>;
std::vector<Series> series_of(std::span<const BenchRow> rows);

// The rows of at least kPlateauMinBytes whose busbw_gbps is at least kPlateauShare of the best
// among them; empty when the sweep ended before.
Series plateau_of(const Series& series);

// p50_s = alpha_s + beta_s_per_byte · effective_bytes by least squares of the relative error.
// alpha_s is at least 0. A series of one size has alpha_s 0.
struct LatencyLine {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};
LatencyLine fit_line(const Series& series);

}  // namespace nqd::collectives
