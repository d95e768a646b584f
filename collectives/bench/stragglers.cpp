#include "collectives/bench/stragglers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

#include "base/units.h"

namespace nqd::collectives {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Work that no compiler shortens and no memory delays: each step needs the one before.
void work(std::int64_t steps) {
  volatile std::uint64_t result = 1;
  std::uint64_t x = result;
  for (std::int64_t i = 0; i < steps; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  result = x;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> gather(Communicator& world, double mine) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kFloat64);
  return all;
}

// Collective. Steps that take the median rank `seconds`, by each rank's best of a few tries.
std::int64_t calibrated_steps(Communicator& world, double seconds) {
  constexpr std::int64_t kTrial = 1'000'000;
  constexpr int kTries = 5;
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < kTries; ++i) {
    const double start = now_s();
    work(kTrial);
    best = std::min(best, now_s() - start);
  }
  const double step_s = median_of(gather(world, best)) / kTrial;
  return std::max<std::int64_t>(1, std::llround(seconds / step_s));
}

// Collective. What to add to this rank's clock to read rank 0's.
double clock_offset(Communicator& world) {
  constexpr int kRounds = 20;
  double offset = 0;
  for (int rank = 1; rank < world.size(); ++rank) {
    if (world.host(rank) == world.host(0)) continue;
    if (world.rank() != 0 && world.rank() != rank) continue;
    double least = std::numeric_limits<double>::max();
    for (int i = 0; i < kRounds; ++i) {
      double stamp = 0;
      const auto bytes = std::as_writable_bytes(std::span(&stamp, 1));
      if (world.rank() == 0) {
        world.receive(bytes, rank);
        stamp = now_s();
        world.send(bytes, rank);
        continue;
      }
      const double start = now_s();
      world.send(bytes, 0);
      world.receive(bytes, 0);
      const double end = now_s();
      if (end - start >= least) continue;
      least = end - start;
      offset = stamp - (start + end) / 2;
    }
  }
  return offset;
}

}  // namespace

std::vector<StragglerRow> run_stragglers(Communicator& world, const StragglerOptions& options) {
  constexpr int kWarmup = 2;
  const std::int64_t steps = calibrated_steps(world, options.compute_s);
  const double offset = clock_offset(world);
  std::vector<double> mine;
  std::vector<float> gradient(1024, 1.0f);
  const auto bytes = std::as_writable_bytes(std::span(gradient));
  for (int i = -kWarmup; i < options.iterations; ++i) {
    work(steps);
    if (i >= 0) mine.push_back(now_s() + offset);
    world.all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kMax);
  }
  std::vector<std::vector<double>> arrivals;
  for (const double arrival : mine) arrivals.push_back(gather(world, arrival));
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host(rank));
  return straggler_rows(arrivals, hosts);
}

std::vector<StragglerRow> straggler_rows(const std::vector<std::vector<double>>& arrivals,
                                         const std::vector<std::string>& hosts) {
  std::vector<StragglerRow> rows;
  const auto iterations = static_cast<double>(arrivals.size());
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    StragglerRow row{.rank = static_cast<int>(rank), .host = hosts[rank]};
    std::vector<double> late;
    for (const std::vector<double>& ranks : arrivals) {
      const auto [first, last] = std::minmax_element(ranks.begin(), ranks.end());
      late.push_back(ranks[rank] - *first);
      row.mean_late_s += late.back() / iterations;
      if (last - ranks.begin() == static_cast<std::ptrdiff_t>(rank)) {
        row.last_share += 1 / iterations;
      }
    }
    row.p95_late_s = percentile(std::move(late), 0.95);
    rows.push_back(row);
  }
  return rows;
}

void judge_stragglers(const std::vector<StragglerRow>& rows, double compute_s,
                      std::vector<Verdict>& verdicts) {
  // A synchronous step is as slow as its slowest rank: beyond a tenth of the work the loss
  // outweighs what the kernel's ticks explain.
  constexpr double kLateShare = 0.1;
  if (rows.size() < 2) return;
  const double chance = 1 / static_cast<double>(rows.size());
  for (const StragglerRow& row : rows) {
    std::vector<double> others;
    for (const StragglerRow& other : rows) {
      if (other.rank != row.rank) others.push_back(other.mean_late_s);
    }
    const double usual = median_of(others);
    if (row.mean_late_s - usual <= kLateShare * compute_s) continue;
    if (row.last_share <= (1 + chance) / 2) continue;
    std::array<char, 64> share{};
    std::snprintf(share.data(), share.size(), "%.0f %% of %s of work, and last in %.0f %%",
                  100 * row.mean_late_s / compute_s, format_seconds(compute_s).c_str(),
                  100 * row.last_share);
    verdicts.push_back(
        {"slow-rank", "warning", "likely",
         "rank " + std::to_string(row.rank) + " on host " + row.host + " comes " +
             format_seconds(row.mean_late_s) + " late on average (the others " +
             format_seconds(usual) + "): " + share.data() + " of the iterations",
         "late by <= 0.1 of the work beyond the median of the others, or last in <= (1 + 1/n)/2 of "
         "the iterations",
         "all ranks wait for this one in every collective: its CPU is shared, slower, or throttled",
         "look at other work, binding, temperature and governor on that host; run without it"});
    return;
  }
}

}  // namespace nqd::collectives
