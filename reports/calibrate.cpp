#include <algorithm>
#include <cmath>
#include <compare>
#include <map>

#include "base/error.h"
#include "collectives/types.h"
#include "planner/calibration/interpolation.h"
#include "reports/crossovers.h"
#include "reports/engine_rates.h"
#include "reports/evidence.h"
#include "reports/sample_rows.h"

namespace nqd::reports {
namespace {

struct CurveKey {
  std::string collective;
  std::string algorithm;
  int ranks = 0;
  auto operator<=>(const CurveKey&) const = default;
};

std::string describe(const CurveKey& key) {
  return describe_curve(key.collective, key.algorithm, key.ranks);
}

struct CurveGroup {
  std::string how;  // how its rows were measured
  bool inside_node = true;
  double break_bytes = 0;
  std::vector<planner::SamplePoint> points;
};
using CurveGroups = std::map<CurveKey, CurveGroup>;

[[noreturn]] void throw_mixed(const std::string& what, const std::string& one,
                              const std::string& other) {
  throw Error(ExitCode::kUsage, "NQD2202",
              what + " was measured in two ways: " + one + "; and " + other,
              "calibrate from documents of one way, and keep one cluster file for each");
}

CurveGroups group_rows(const std::vector<SampleRow>& rows) {
  CurveGroups groups;
  for (const SampleRow& sample : rows) {
    const collectives::BenchRow& row = *sample.row;
    // A pingpong is one message at a time, as the planner's send_recv.
    const std::string collective = row.collective == "pingpong" ? "send_recv" : row.collective;
    const CurveKey key{collective, row.algorithm, row.ranks};
    CurveGroup& group = groups[key];
    if (group.points.empty()) {
      group.how = sample.how;
      group.inside_node = sample.inside_node;
      group.break_bytes = sample.break_bytes;
    }
    if (group.how != sample.how) throw_mixed(describe(key), group.how, sample.how);
    group.points.push_back({static_cast<double>(row.effective_bytes), row.p50_s});
  }
  return groups;
}

std::vector<planner::CalibratedCurve> fit_groups(const CurveGroups& groups,
                                                 std::vector<std::string>& skipped) {
  std::vector<planner::CalibratedCurve> curves;
  for (const auto& [key, group] : groups) {
    try {
      planner::CalibratedCurve curve = planner::fit_curve(group.points, group.break_bytes);
      curve.collective = key.collective;
      curve.algorithm = key.algorithm;
      curve.ranks = key.ranks;
      curve.inside_node = group.inside_node;
      curves.push_back(std::move(curve));
    } catch (const Error& error) {
      if (error.code() != "NQD2201") throw;
      skipped.push_back(describe(key) + ": " + error.what());
    }
  }
  return curves;
}

double gemm_rate(const std::vector<Evidence>& evidence) {
  double flops = 0;
  double seconds = 0;
  std::string how;
  for (const Evidence& document : evidence) {
    for (const collectives::GemmRow& row : document.bench.gemm_rows) {
      if (!std::isfinite(row.p50_s) || row.p50_s <= 0) continue;
      const std::string row_how = row.library + ", " + std::to_string(row.threads) +
                                  " threads, host " + document.envelope.host.hostname;
      if (how.empty()) how = row_how;
      if (how != row_how) throw_mixed("the GEMM rate", how, row_how);
      flops += 2.0 * static_cast<double>(row.m) * static_cast<double>(row.n) *
               static_cast<double>(row.k);
      seconds += row.p50_s;
    }
  }
  return seconds > 0 ? flops / seconds : 0;
}

double median_memory_rate(const std::vector<Evidence>& evidence) {
  std::vector<double> rates;
  for (const Evidence& document : evidence) {
    if (document.bench.memory_bandwidth_bytes_per_s > 0) {
      rates.push_back(document.bench.memory_bandwidth_bytes_per_s);
    }
  }
  return rates.empty() ? 0 : collectives::percentile(rates, 0.5);
}

std::string source_of(const std::vector<Evidence>& evidence) {
  std::string source;
  for (const Evidence& document : evidence) {
    if (document.envelope.kind != "bench") continue;
    if (!source.empty()) source += "; ";
    source += document.path.string() + ", " + document.envelope.ended_at + ", host " +
              document.envelope.host.hostname;
  }
  return source;
}

[[noreturn]] void throw_nothing_to_fit(const std::vector<std::string>& reasons) {
  std::string message = "nothing here can be fitted";
  for (const std::string& reason : reasons) message += "\n  " + reason;
  throw Error(ExitCode::kUsage, "NQD2201", message,
              "measure at least two sizes: mpirun -n 2 nqd bench all_reduce -b 4K -e 64M -f 4 "
              "--output bench.json");
}

}  // namespace

planner::Calibration calibrate(const std::vector<Evidence>& evidence,
                               std::vector<std::string>* skipped) {
  std::vector<std::string> reasons;
  for (const Evidence& document : evidence) {
    if (document.envelope.kind != "bench") {
      reasons.push_back(document.path.string() + ": kind " + document.envelope.kind +
                        ", which holds no samples of a sweep");
    }
  }
  planner::Calibration calibration;
  const std::vector<SampleRow> rows = sample_rows(evidence, reasons);
  calibration.curves = fit_groups(group_rows(rows), reasons);
  calibration.crossovers = find_crossovers(rows, reasons);
  calibration.gemm_flops = gemm_rate(evidence);
  calibration.memory_bandwidth_bytes_per_s = median_memory_rate(evidence);
  calibration.engine_rates = fit_engine(evidence);
  calibration.source = source_of(evidence);
  if (calibration.curves.empty() && calibration.engine_rates.empty() &&
      calibration.gemm_flops == 0 && calibration.memory_bandwidth_bytes_per_s == 0) {
    throw_nothing_to_fit(reasons);
  }
  if (skipped != nullptr) *skipped = std::move(reasons);
  return calibration;
}

std::vector<CurveHoldOut> hold_out_curves(const std::vector<Evidence>& evidence) {
  std::vector<std::string> reasons;  // calibrate() has said them
  std::vector<CurveHoldOut> curves;
  for (const auto& [key, group] : group_rows(sample_rows(evidence, reasons))) {
    planner::HoldOut result =
        planner::hold_out_curve(planner::median_points(group.points), group.break_bytes);
    if (result.predictions.empty()) continue;
    curves.push_back({key.collective, key.algorithm, key.ranks, std::move(result)});
  }
  return curves;
}

}  // namespace nqd::reports
