#include "cli/bench/nccl.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <string_view>
#include <utility>

#include "cli/bench/nccl_table.h"
#include "cli/bench/tuning.h"
#include "collectives/nccl/bench_device.h"
#include "collectives/nccl/bootstrap.h"
#include "collectives/nccl/log.h"
#include "collectives/nccl/log_verdicts.h"
#include "planner/config/cluster_file.h"
#include "reports/diagnose/diagnosis.h"

namespace nqd::cli {
namespace {

using collectives::BenchOptions;
using collectives::BenchResult;
using collectives::Collective;
using collectives::Communicator;

bool has_both_places(Collective collective) {
  return collective != Collective::kBroadcast && collective != Collective::kAllToAll &&
         collective != Collective::kSendRecv;
}

// Adds a second sweep of the same ranks to the first.
void add_sweep(collectives::DeviceSweep second, collectives::DeviceSweep& first) {
  BenchResult& all = first.result;
  std::ranges::move(second.result.rows, std::back_inserter(all.rows));
  std::ranges::move(second.estimates_s, std::back_inserter(first.estimates_s));
  for (std::size_t i = 0; i < all.machine.hosts.size(); ++i) {
    all.machine.hosts[i].end = second.result.machine.hosts[i].end;
  }
  for (collectives::Verdict& verdict : second.result.verdicts) {
    const bool said = std::ranges::any_of(all.verdicts, [&](const collectives::Verdict& other) {
      return other.code == verdict.code && other.evidence == verdict.evidence;
    });
    if (!said) all.verdicts.push_back(std::move(verdict));
  }
}

// Collective. What NCCL's own log says is wrong.
void judge_log(Communicator& world, const BenchFlags& flags,
               const collectives::NcclLogCapture& capture,
               std::vector<collectives::Verdict>& verdicts) {
  const std::vector<std::string> texts = collectives::gather_nccl_logs(world, capture);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const collectives::NcclLog log = collectives::parse_nccl_logs(views);
  collectives::FabricPromise promise;
  if (!flags.cluster.empty() && !is_calibration(flags.cluster)) {
    promise = reports::promise_of(planner::read_cluster(flags.cluster), flags.cluster);
  }
  std::ranges::move(collectives::judge_nccl_log(log, promise, true), std::back_inserter(verdicts));
}

}  // namespace

std::unique_ptr<collectives::NcclLogCapture> prepare_nccl(const BenchFlags& flags,
                                                          const BenchOptions& bench) {
  if (bench.numerics == collectives::Numerics::kCanonical) {
    throw Error(ExitCode::kUsage, "NQD2104", "NCCL's sums are not canonical: it chooses the order",
                "measure with --numerics fast");
  }
  if (flags.graph && bench.cold) {
    throw Error(ExitCode::kUsage, "NQD2104",
                "--graph captures one call, but with --cold every call has other vectors",
                "give one of them");
  }
  for (const collectives::Algorithm algorithm : bench.algorithms) {
    if (algorithm == collectives::Algorithm::kAuto ||
        algorithm == collectives::Algorithm::kLibrary) {
      continue;
    }
    throw Error(ExitCode::kUsage, "NQD2102",
                "NCCL chooses its algorithms itself, so " + std::string(name(algorithm)) +
                    " cannot be asked for",
                "leave --algorithm out; NCCL_ALGO and NCCL_PROTO restrict its choice");
  }
  collectives::nccl_api();
  collectives::cuda_api();
  return std::make_unique<collectives::NcclLogCapture>();
}

NcclRun run_nccl(Communicator& world, const BenchFlags& flags, const BenchOptions& bench,
                 const collectives::NcclLogCapture& capture, bool table,
                 const std::function<void(const collectives::BenchRow&)>& on_row) {
  collectives::DeviceApi& device = collectives::cuda_api();
  collectives::NcclApi& nccl = collectives::nccl_api();
  collectives::NcclOptions options;
  options.deadline =
      std::chrono::milliseconds(static_cast<std::int64_t>(flags.session.deadline_s * 1e3));
  const auto on_devices = collectives::open_nccl(world, device, nccl, options);
  NcclRun run;
  run.evidence.nccl_version = collectives::nccl_version_text(nccl.version());
  run.evidence.graph = flags.graph;
  run.evidence.devices = collectives::gather_devices(
      world, device, on_devices->session().place().device, system_roots());
  collectives::NcclBenchDevice bench_device(*on_devices, flags.graph);
  collectives::DeviceSweep sweep = run_bench(world, bench, bench_device, on_row);
  if (!bench.in_place && has_both_places(bench.collective)) {
    BenchOptions in_place = bench;
    in_place.in_place = true;
    add_sweep(run_bench(world, in_place, bench_device, on_row), sweep);
  }
  judge_log(world, flags, capture, sweep.result.verdicts);
  run.result = std::move(sweep.result);
  run.evidence.estimates_s = std::move(sweep.estimates_s);
  if (table) {
    std::cout << nccl_table(bench, run.evidence.nccl_version, run.evidence.devices, run.result.rows)
              << std::flush;
  }
  return run;
}

}  // namespace nqd::cli
