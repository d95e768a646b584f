#include "engine/canary/canary.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "collectives/bench/pair_matrix.h"
#include "engine/canary/judge.h"
#include "engine/gemm/gemm_bench.h"
#include "planner/calibration/calibration.h"

namespace nqd::engine {
namespace {

using Clock = std::chrono::steady_clock;
using collectives::Communicator;

constexpr int kMostPasses = 3;
constexpr int kRounds = 4;
constexpr double kRoundS = 0.1;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The products of a small GPT: of a size that a training step has, and soon done.
planner::ModelSpec fixed_model() {
  planner::ModelSpec model;
  model.hidden = 192;
  model.ffn_hidden = 768;
  model.vocab = 256;
  model.sequence = 128;
  return model;
}

struct Figures {
  double gemm_flops = 0;
  double gemm_flops_per_cpu_s = 0;
  double cpu_share = 0;
  double copy_bytes_per_s = 0;
  double copy_bytes_per_cpu_s = 0;
};
constexpr std::size_t kFigures = 5;

// A round is long beside a scheduler's time slice, so that a competitor shows in every one.
void time_products(Figures& best) {
  constexpr int kIterations = 4;
  constexpr std::int64_t kMicroBatch = 2;
  const Clock::time_point start = Clock::now();
  const double cpu_start_s = thread_cpu_s();
  double flops = 0;    // of timed products
  double timed_s = 0;  // by the clock
  do {
    for (const auto& row : run_gemm_bench(fixed_model(), kMicroBatch, kIterations)) {
      const double flops_of_call = 2.0 * static_cast<double>(row.m) * static_cast<double>(row.n) *
                                   static_cast<double>(row.k);
      for (const double sample_s : row.samples_s) {
        flops += flops_of_call;
        timed_s += sample_s;
      }
    }
  } while (seconds_since(start) < kRoundS);
  const double share = std::min(1.0, (thread_cpu_s() - cpu_start_s) / seconds_since(start));
  const double rate = flops / timed_s;
  best.gemm_flops = std::max(best.gemm_flops, rate);
  best.gemm_flops_per_cpu_s = std::max(best.gemm_flops_per_cpu_s, rate / share);
  best.cpu_share = std::max(best.cpu_share, share);
}

// Ranks of a host take turns: together they would measure how its memory is shared.
void time_copies(Communicator& world, Figures& best) {
  std::map<std::string, int> counts;
  int turn = 0;
  int turns = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const int before = counts[world.host(rank)]++;
    if (rank == world.rank()) turn = before;
    turns = std::max(turns, before + 1);
  }
  for (int now = 0; now < turns; ++now) {
    world.barrier();
    if (now != turn) continue;
    const CopyBandwidth copy = measure_copy();
    best.copy_bytes_per_s = std::max(best.copy_bytes_per_s, copy.bytes_per_s);
    best.copy_bytes_per_cpu_s = std::max(best.copy_bytes_per_cpu_s, copy.bytes_per_cpu_s);
  }
}

// All pairs of up to kAll ranks; of more the pairs at distances 1, 2, 4, …: neighbours, and every
// host with others.
std::vector<std::pair<int, int>> pairs_of(int ranks) {
  constexpr int kAll = 16;
  std::set<std::pair<int, int>> pairs;
  for (int a = 0; a < ranks; ++a) {
    for (int distance = 1; distance < ranks; distance += ranks <= kAll ? 1 : distance) {
      pairs.insert(std::minmax(a, (a + distance) % ranks));
    }
  }
  return {pairs.begin(), pairs.end()};
}

// Pairs of one round are of different hosts: they share neither memory nor an adapter.
collectives::PairRounds rounds_of(const Communicator& world) {
  collectives::PairRounds rounds;
  std::vector<std::set<std::string>> taken;
  for (const auto& [a, b] : pairs_of(world.size())) {
    std::size_t round = 0;
    while (round < rounds.size() &&
           (taken[round].contains(world.host(a)) || taken[round].contains(world.host(b)))) {
      ++round;
    }
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back();
    }
    rounds[round].emplace_back(a, b);
    taken[round].insert(world.host(a));
    taken[round].insert(world.host(b));
  }
  return rounds;
}

void gather_devices(Communicator& world, const Figures& mine, CanaryResult& result) {
  std::vector<Figures> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kFloat64);
  result.devices.clear();
  for (int rank = 0; rank < world.size(); ++rank) {
    const Figures& figures = all[static_cast<std::size_t>(rank)];
    CanaryDevice device;
    device.rank = rank;
    device.host = world.host(rank);
    device.gemm_flops = figures.gemm_flops;
    device.gemm_flops_per_cpu_s = figures.gemm_flops_per_cpu_s;
    device.cpu_share = figures.cpu_share;
    device.copy_bytes_per_s = figures.copy_bytes_per_s;
    device.copy_bytes_per_cpu_s = figures.copy_bytes_per_cpu_s;
    result.devices.push_back(std::move(device));
  }
}

void measure_links(Communicator& world, CanaryResult& result) {
  if (world.size() < 2) return;
  const std::vector<collectives::PairRow> links = run_pairs(world, rounds_of(world),
                                                            {.large_bytes = kCanaryMessageBytes,
                                                             .small_iterations = 50,
                                                             .large_iterations = 4,
                                                             .batches = 4});
  if (result.links.empty()) result.links = links;
  for (std::size_t i = 0; i < links.size(); ++i) {
    collectives::PairRow& best = result.links[i];
    best.latency_s = std::min(best.latency_s, links[i].latency_s);
    best.bandwidth_gbps = std::max(best.bandwidth_gbps, links[i].bandwidth_gbps);
  }
}

}  // namespace

std::vector<std::string> CanaryResult::slow_hosts() const {
  std::vector<std::string> hosts;
  for (const CanaryFinding& found : findings) {
    if (found.peer >= 0) continue;
    if (std::find(hosts.begin(), hosts.end(), found.host) == hosts.end()) {
      hosts.push_back(found.host);
    }
  }
  return hosts;
}

CanaryExpectation canary_expectation(const std::vector<planner::CalibratedCurve>& curves,
                                     double gemm_flops, double copy_bytes_per_s,
                                     std::string source) {
  CanaryExpectation expectation;
  expectation.source = std::move(source);
  expectation.gemm_flops = gemm_flops;
  expectation.copy_bytes_per_s = copy_bytes_per_s;
  constexpr double kBytes = kCanaryMessageBytes;
  for (const planner::CalibratedCurve& curve : curves) {
    if (curve.collective != "send_recv" || curve.ranks != 2) continue;
    bool extrapolated = false;
    const double rate = kBytes / planner::curve_time_s(curve, kBytes, &extrapolated);
    if (extrapolated) continue;
    double& known = curve.inside_node ? expectation.inside_link_bytes_per_s
                                      : expectation.across_link_bytes_per_s;
    known = known == 0 ? rate : std::min(known, rate);
  }
  return expectation;
}

CanaryResult run_canary(Communicator& world, const CanaryExpectation& expectation) {
  static_assert(sizeof(Figures) == kFigures * sizeof(double));
  const Clock::time_point start = Clock::now();
  CanaryResult result;
  result.expectation = expectation;
  result.machine = begin_record(world);
  Figures best;
  do {
    for (int round = 0; round < kRounds; ++round) {
      world.barrier();
      time_products(best);
    }
    time_copies(world, best);
    measure_links(world, result);
    gather_devices(world, best, result);
    judge_canary(result);
    ++result.passes;
  } while (!result.healthy() && result.passes < kMostPasses);
  finish_record(world, result.machine);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace nqd::engine
