#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "collectives/cost.h"
#include "planner/calibration/calibration.h"
#include "planner/mesh/fabric.h"
#include "planner/text.h"
#include "reports/diagnose/run_verdicts.h"
#include "reports/page/format.h"

namespace nqd::reports {
namespace {

using collectives::BenchRow;
using collectives::Collective;
using collectives::FabricPromise;
using collectives::Verdict;

constexpr std::uint64_t kLeastPlateau = 16ull << 20;
constexpr std::uint64_t kLeastLone = 256ull << 20;
constexpr double kMostGrowth = 1.15;
// Of the line rate, by the maintainers' rule of 24 GB/s for an adapter of 200 Gb/s
// (NVIDIA/nccl-tests#119).
constexpr double kGoodShare = 0.96;
// Below these shares of what is promised something is wrong, or badly so.
constexpr double kWarnShare = 0.8;
constexpr double kFailShare = 0.5;

double bytes_of(const BenchRow& row) { return static_cast<double>(row.effective_bytes); }

bool is_ring_bound(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
         collective == Collective::kReduceScatter || collective == Collective::kBroadcast ||
         collective == Collective::kReduce;
}

// Across nodes the adapters of a node carry what a ring through all its ranks sends once, so busbw
// is bound by their sum. Of an all_to_all the (n - l) / n for the other nodes leaves each rank
// through its share of them, where l ranks are on a node.
std::optional<Expectation> across_nodes(const FabricPromise& promise, Collective collective,
                                        int ranks, int nodes) {
  const double local = std::max(1.0, static_cast<double>(ranks) / nodes);
  const double adapters = std::min<double>(promise.adapters_per_node, local);
  Expectation expected;
  expected.line_gbps = adapters * promise.adapter_bytes_per_s / promise.oversubscription / kGB;
  if (!(expected.line_gbps > 0)) return std::nullopt;
  expected.basis = fixed(kGoodShare, 2) + " x " + fixed(adapters, 0) + " adapters x " +
                   fixed(promise.adapter_bytes_per_s / kGB, 1) + " GB/s";
  if (collective == Collective::kAllToAll) {
    const double others = (ranks - 1) / (ranks - local) / local;
    expected.line_gbps *= others;
    expected.basis += " x " + fixed(others, 3);
  } else if (!is_ring_bound(collective)) {
    return std::nullopt;
  }
  expected.busbw_gbps = kGoodShare * expected.line_gbps;
  const double scale_up = promise.scale_up_bytes_per_s / kGB;
  if (promise.gpus_per_node > 1 && local > 1 && scale_up > 0 && scale_up < expected.busbw_gbps) {
    expected.busbw_gbps = scale_up;
    expected.basis = "links inside the node, " + fixed(scale_up, 0) + " GB/s";
  }
  expected.basis += " (" + promise.source + "; NVIDIA/nccl-tests#119)";
  return expected;
}

planner::ExchangeCost cost_of(const planner::ClusterSpec& cluster, Collective collective,
                              const planner::Placement& group) {
  switch (collective) {
    case Collective::kAllReduce:
      return planner::all_reduce_cost(cluster, group, cluster.fabric.network_share);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return planner::all_gather_cost(cluster, group, cluster.fabric.network_share);
    case Collective::kAllToAll:
      return planner::all_to_all_cost(cluster, group, cluster.fabric.network_share);
    default:
      return {};
  }
}

using Curves = std::map<std::tuple<std::string, std::string, std::string, bool, bool>,
                        std::vector<const BenchRow*>>;

Curves curves_of(const MeasuredRun& run) {
  Curves curves;
  for (const BenchRow& row : run.rows) {
    curves[{row.algorithm, row.dtype, row.op, row.in_place, row.registered}].push_back(&row);
  }
  for (auto& [key, curve] : curves) {
    std::sort(curve.begin(), curve.end(), [](const BenchRow* a, const BenchRow* b) {
      return a->effective_bytes < b->effective_bytes;
    });
  }
  return curves;
}

// The best plateau of the run's curves: what the fabric was seen to do.
struct Seen {
  const BenchRow* best = nullptr;
  std::string why_not;
};

Seen best_plateau(const Curves& curves) {
  Seen seen;
  for (const auto& [key, curve] : curves) {
    const Plateau plateau = find_plateau(curve);
    if (plateau.best == nullptr) {
      seen.why_not = plateau.why_not;
    } else if (seen.best == nullptr || plateau.best->busbw_gbps > seen.best->busbw_gbps) {
      seen.best = plateau.best;
    }
  }
  return seen;
}

// Over a range of at least 8 sizes the time has not doubled: it is latency.
void judge_latency(const MeasuredRun& run, const Curves& curves, std::vector<Verdict>& verdicts) {
  for (const auto& [key, curve] : curves) {
    const BenchRow& small = *curve.front();
    const BenchRow& large = *curve.back();
    if (curve.size() < 3 || bytes_of(large) < 8 * bytes_of(small)) continue;
    if (large.p50_s >= 2 * small.p50_s) continue;
    verdicts.push_back(
        {"latency-bound", "info", "certain",
         run.collective + " takes " + format_seconds(small.p50_s) + " at " +
             short_bytes(bytes_of(small)) + " and " + format_seconds(large.p50_s) + " at " +
             short_bytes(bytes_of(large)),
         "time at the largest size >= 2 x time at the smallest",
         "all sizes measured are latency: their bandwidths say nothing of the fabric",
         "measure to larger sizes (-e 4G -f 2) for bandwidth"});
    return;
  }
}

Verdict fallback(const std::string& evidence, const Expectation& expected) {
  return {"socket-fallback",
          "error",
          "suspected",
          evidence + ", and " + expected.basis + " promises RDMA",
          "busbw >= 0.5 x line rate, " + fixed(kFailShare * expected.line_gbps, 1) + " GB/s",
          "this is what TCP gives where RDMA is there (AReaL#639: 5 instead of 25 GB/s); no log "
          "says which network was used",
          "run again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV and give the log too: "
          "\"Using network Socket\" decides"};
}

}  // namespace

Plateau find_plateau(const std::vector<const BenchRow*>& curve) {
  Plateau plateau;
  const BenchRow& top = *curve.back();
  const std::string size = short_bytes(bytes_of(top));
  const auto below = std::find_if(curve.rbegin(), curve.rend(), [&](const BenchRow* row) {
    return row->effective_bytes < top.effective_bytes;
  });
  if (top.effective_bytes < (below == curve.rend() ? kLeastLone : kLeastPlateau)) {
    plateau.why_not = "the largest size, " + size + ", is too small for a verdict on bandwidth";
    return plateau;
  }
  if (below != curve.rend()) {
    const double doublings = std::log2(bytes_of(top) / bytes_of(**below));
    const double growth = top.busbw_gbps / (*below)->busbw_gbps;
    if (std::pow(growth, 1 / std::max(1.0, doublings)) > kMostGrowth) {
      plateau.why_not = "busbw still grows at the largest size, " + size +
                        ": no verdict on bandwidth; measure larger ones";
      return plateau;
    }
  }
  for (const BenchRow* row : curve) {
    if (row->effective_bytes < std::max(kLeastPlateau, top.effective_bytes / 4)) continue;
    if (!std::isfinite(row->busbw_gbps)) continue;
    if (plateau.best == nullptr || row->busbw_gbps > plateau.best->busbw_gbps) plateau.best = row;
  }
  if (plateau.best == nullptr) plateau.why_not = "the largest sizes have no bandwidth";
  return plateau;
}

std::optional<Expectation> expected_busbw(const planner::ClusterSpec& cluster,
                                          const FabricPromise& promise, const MeasuredRun& run,
                                          double bytes) {
  const std::optional<Collective> collective = collectives::parse_collective(run.collective);
  if (!collective || run.ranks < 2 || run.nodes < 1) return std::nullopt;
  const double factor = collectives::bus_factor(*collective, static_cast<std::size_t>(run.ranks));
  const planner::Placement group{run.ranks, std::max(1, run.ranks / run.nodes)};
  const planner::ExchangeCost cost = cost_of(cluster, *collective, group);
  if (cost.curve != nullptr) {
    const double seconds = cost.seconds(bytes);
    if (!(seconds > 0)) return std::nullopt;
    return Expectation{factor * bytes / seconds / kGB, 0, "as calibrated in " + promise.source};
  }
  if (run.nodes > 1) return across_nodes(promise, *collective, run.ranks, run.nodes);
  if (!(cost.s_per_byte > 0) || run.ranks > promise.gpus_per_node) return std::nullopt;
  return Expectation{factor / cost.s_per_byte / kGB, 0,
                     "links inside a node (" + promise.source + ")"};
}

void judge_bandwidth(const MeasuredRun& run, const planner::ClusterSpec* cluster,
                     const FabricPromise& promise, const std::string& network,
                     std::vector<Verdict>& verdicts, std::vector<std::string>& notes) {
  const Curves curves = curves_of(run);
  if (curves.empty() || run.ranks == 1) return;
  judge_latency(run, curves, verdicts);
  if (cluster == nullptr) return;
  const Seen seen = best_plateau(curves);
  if (seen.best == nullptr) {
    notes.push_back(run.collective + ": " + seen.why_not);
    return;
  }
  const double bytes = bytes_of(*seen.best);
  const std::optional<Expectation> expected = expected_busbw(*cluster, promise, run, bytes);
  if (!expected) {
    notes.push_back(run.collective + ": nothing promises a bandwidth for it on " +
                    std::to_string(run.ranks) + " ranks of " + std::to_string(run.nodes) +
                    " nodes");
    return;
  }
  const double measured = seen.best->busbw_gbps;
  const double share = measured / expected->busbw_gbps;
  const std::string evidence =
      run.collective + " busbw " + fixed(measured, 2) + " GB/s at " + short_bytes(bytes) + " on " +
      std::to_string(run.ranks) + " ranks of " + std::to_string(run.nodes) + " nodes, " +
      planner::percent(share) + " of " + fixed(expected->busbw_gbps, 1) + " GB/s";
  const bool rdma_promised = run.nodes > 1 && promise.rdma() && expected->line_gbps > 0;
  if (rdma_promised && network.empty() && measured < kFailShare * expected->line_gbps) {
    verdicts.push_back(fallback(evidence, *expected));
    return;
  }
  if (share >= kWarnShare) return;
  verdicts.push_back(
      {"below-expected", share < kFailShare ? "error" : "warning", "likely", evidence,
       "busbw >= 0.8 x " + expected->basis,
       run.nodes > 1 ? "the network between nodes gives less than its line rate: adapters that are "
                       "not used, GPUDirect RDMA off, PCIe ACS or link width, congestion"
                     : "the links inside the node give less than they should: P2P off, a link "
                       "down, or GPUs that are shared",
       run.nodes > 1
           ? "give the NCCL log of the run too; ib_write_bw per adapter; lspci -vvv for "
             "ACS and LnkSta; the adapters' counters before and after"
           : "nvidia-smi topo -m, nvidia-smi nvlink -s; give the NCCL log of the run too"});
}

}  // namespace nqd::reports
