#include "collectives/bench/verdicts.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/host.h"
#include "base/units.h"

namespace nqd::collectives {
namespace {

struct CpuShare {
  std::array<std::uint64_t, sizeof(cpu_set_t) / 8> mask{};
  std::int32_t quota = 0;  // CPUs that a cgroup allows; 0 = all of the mask
};

CpuShare own_cpus() {
  CpuShare share;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    share.mask = std::bit_cast<decltype(share.mask)>(set);
  }
  const int usable = read_host_info().usable_cpus;
  if (usable < CPU_COUNT(&set)) share.quota = usable;
  return share;
}

std::string at(const BenchRow& row) {
  return row.algorithm + " " + format_bytes_binary(static_cast<double>(row.effective_bytes));
}

void judge_hosts(const std::vector<HostShare>& hosts, std::vector<Verdict>& verdicts) {
  for (const HostShare& host : hosts) {
    if (host.ranks <= host.cpus) continue;
    verdicts.push_back({"oversubscribed", "warning", "certain",
                        std::to_string(host.ranks) + " ranks share " + std::to_string(host.cpus) +
                            " usable CPUs on host " + host.host,
                        "ranks <= usable CPUs",
                        "ranks wait for a CPU, not for the fabric, so times say little about it",
                        "run at most " + std::to_string(host.cpus) + " ranks on this host"});
  }
}

void judge_results(const std::vector<BenchRow>& rows, std::vector<Verdict>& verdicts) {
  std::uint64_t wrong = 0;
  std::string first;
  for (const BenchRow& row : rows) {
    if (row.wrong > 0 && first.empty()) first = at(row);
    wrong += row.wrong;
  }
  if (wrong == 0) return;
  verdicts.push_back({"wrong-result", "error", "certain",
                      std::to_string(wrong) + " wrong elements, first at " + first,
                      "0 wrong elements",
                      "the collective, the transport or the memory corrupts data",
                      "run again with ring, tree and library to see which one fails; test the "
                      "memory of the hosts"});
}

void judge_counts(const std::vector<BenchRow>& rows, const std::vector<std::size_t>& miscounted,
                  std::vector<Verdict>& verdicts) {
  if (miscounted.empty()) return;
  const BenchRow& row = rows[miscounted.front()];
  verdicts.push_back({"byte-count-mismatch", "error", "certain",
                      std::to_string(miscounted.size()) + " rows; " + at(row) + " sent " +
                          std::to_string(row.bytes_sent_per_rank) + " bytes a rank, predicted " +
                          std::to_string(row.predicted_bytes_per_rank),
                      "counted = predicted, on every rank",
                      "an algorithm and its cost function have parted",
                      "report it as a defect of nqd, with this evidence"});
}

// Fewer samples have no 95th percentile to speak of.
constexpr std::size_t kMinSamples = 10;
constexpr double kMaxSpread = 2;

void judge_spread(const std::vector<BenchRow>& rows, std::vector<Verdict>& verdicts) {
  std::size_t wide = 0;
  const BenchRow* widest = nullptr;
  for (const BenchRow& row : rows) {
    if (row.samples_s.size() < kMinSamples || row.p95_s <= kMaxSpread * row.p50_s) continue;
    ++wide;
    if (widest == nullptr || row.p95_s * widest->p50_s > widest->p95_s * row.p50_s) widest = &row;
  }
  if (wide == 0) return;
  verdicts.push_back({"high-variance", "warning", "likely",
                      std::to_string(wide) + " of " + std::to_string(rows.size()) + " rows; " +
                          at(*widest) + " has p50 " + format_seconds(widest->p50_s) + ", p95 " +
                          format_seconds(widest->p95_s),
                      "p95 <= 2 x p50", "other work on the hosts, or more ranks than CPUs",
                      "repeat on quiet hosts, or with more iterations"});
}

}  // namespace

std::vector<HostShare> host_shares(Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const CpuShare mine = own_cpus();
  std::vector<CpuShare> all(ranks);
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  std::vector<HostShare> hosts;
  std::vector<CpuShare> cpus;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::string& name = world.host(static_cast<int>(rank));
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const HostShare& host) { return host.host == name; });
    const auto index = static_cast<std::size_t>(found - hosts.begin());
    if (found == hosts.end()) {
      hosts.push_back({name, 0, 0});
      cpus.push_back({{}, all[rank].quota});
    }
    ++hosts[index].ranks;
    for (std::size_t i = 0; i < all[rank].mask.size(); ++i) {
      cpus[index].mask[i] |= all[rank].mask[i];
    }
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (const std::uint64_t word : cpus[i].mask) hosts[i].cpus += std::popcount(word);
    if (cpus[i].quota > 0) hosts[i].cpus = std::min(hosts[i].cpus, cpus[i].quota);
  }
  return hosts;
}

std::vector<Verdict> judge(const std::vector<BenchRow>& rows,
                           const std::vector<std::size_t>& miscounted_rows,
                           const std::vector<HostShare>& hosts) {
  std::vector<Verdict> verdicts;
  judge_hosts(hosts, verdicts);
  judge_results(rows, verdicts);
  judge_counts(rows, miscounted_rows, verdicts);
  judge_spread(rows, verdicts);
  return verdicts;
}

}  // namespace nqd::collectives
