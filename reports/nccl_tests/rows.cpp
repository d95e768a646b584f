#include <algorithm>
#include <array>
#include <cmath>

#include "collectives/cost.h"
#include "reports/nccl_tests/nccl_tests.h"

namespace nqd::reports {
namespace {

struct Spelling {
  std::string_view theirs, ours;
};
// "alltoallv" moves other sizes than all_to_all, and is no collective of nqd.
constexpr std::array kCollectives = {Spelling{"alltoall", "all_to_all"},
                                     Spelling{"alltoallv", "all_to_all_v"},
                                     Spelling{"sendrecv", "send_recv"}};
constexpr std::array kTypes = {Spelling{"half", "float16"}, Spelling{"float", "float32"},
                               Spelling{"double", "float64"}};

template <std::size_t kCount>
std::string ours(std::string_view word, const std::array<Spelling, kCount>& spellings) {
  for (const Spelling& spelling : spellings) {
    if (spelling.theirs == word) return std::string(spelling.ours);
  }
  return std::string(word);
}

// Which collective has the ratio busbw / algbw that the run printed. Only answers that leave no
// choice: (n-1)/n with a reduction is reduce_scatter, 1 with a root is reduce or broadcast.
std::string told_by_ratio(const NcclTestsRun& run) {
  using collectives::Collective;
  const auto best = std::max_element(
      run.rows.begin(), run.rows.end(),
      [](const auto& a, const auto& b) { return a.effective_bytes < b.effective_bytes; });
  if (run.ranks < 2 || best == run.rows.end() || !(best->algbw_gbps > 0)) return "unknown";
  const double ratio = best->busbw_gbps / best->algbw_gbps;
  const auto is = [&](Collective collective) {
    constexpr double kRounding = 0.02;  // of two printed figures with two decimals
    const double factor = collectives::bus_factor(collective, static_cast<std::size_t>(run.ranks));
    return std::abs(ratio - factor) < kRounding * factor;
  };
  const bool reduces = best->op != "none" && !best->op.empty();
  // Two ranks: 2(n-1)/n is 1 as well.
  if (!reduces || run.ranks == 2) return "unknown";
  if (is(Collective::kAllReduce)) return "all_reduce";
  if (is(Collective::kReduceScatter) && !is(Collective::kReduce)) return "reduce_scatter";
  return "unknown";
}

}  // namespace

int NcclTestsRun::hosts() const {
  std::set<std::string> names;
  for (const NcclTestsDevice& device : devices) names.insert(device.host);
  return static_cast<int>(names.size());
}

std::string collective_of_program(std::string_view program) {
  const std::size_t slash = program.rfind('/');
  if (slash != std::string_view::npos) program.remove_prefix(slash + 1);
  const std::size_t end = program.find("_perf");
  if (end == std::string_view::npos) return {};
  return ours(program.substr(0, end), kCollectives);
}

std::string dtype_of_nccl(std::string_view type) { return ours(type, kTypes); }

bool add_nccl_row(NcclTestsRun& run, collectives::BenchRow row, NcclTestsOutput& output) {
  if (row.effective_bytes == 0 || !(row.p50_s > 0) || !std::isfinite(row.p50_s)) {
    output.notes.push_back("a row of " + std::to_string(row.effective_bytes) +
                           " bytes has no time and is left out");
    return false;
  }
  row.backend = "nccl";
  row.transport = "unknown";
  row.algorithm = "library";
  row.requested_bytes = row.effective_bytes;
  const bool summarised = row.max_s > 0;  // printed, without the iterations
  if (row.samples_s.empty()) row.samples_s = {row.p50_s};
  row.p50_s = collectives::percentile(row.samples_s, 0.5);
  row.p95_s = collectives::percentile(row.samples_s, 0.95);
  if (!summarised) {
    row.min_s = collectives::percentile(row.samples_s, 0);
    row.p99_s = collectives::percentile(row.samples_s, 0.99);
    row.max_s = collectives::percentile(row.samples_s, 1);
  }
  run.rows.push_back(std::move(row));
  return true;
}

void finish_nccl_run(NcclTestsRun& run) {
  if (run.ranks == 0) {
    for (const NcclTestsDevice& device : run.devices) {
      run.ranks = std::max(run.ranks, device.rank + 1);
    }
  }
  if (run.collective == "unknown") run.collective = told_by_ratio(run);
  for (collectives::BenchRow& row : run.rows) {
    row.collective = run.collective;
    row.ranks = run.ranks;
  }
}

}  // namespace nqd::reports
