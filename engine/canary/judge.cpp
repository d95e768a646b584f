#include "engine/canary/judge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "collectives/bench/pair_matrix.h"
#include "engine/numerics/robust.h"

namespace nqd::engine {
namespace {

std::set<std::string> find_busy_hosts(const std::vector<CanaryDevice>& devices) {
  std::map<std::string, std::vector<double>> shares;
  for (const CanaryDevice& device : devices) shares[device.host].push_back(device.cpu_share);
  std::set<std::string> busy;
  for (const auto& [host, of_ranks] : shares) {
    if (median(of_ranks) * kSlowDevice < 1) busy.insert(host);
  }
  return busy;
}

// Of one figure, larger being better, over the devices that may be compared.
class Comparison {
 public:
  Comparison(CanaryTest test, double CanaryDevice::*figure) : test_(test), figure_(figure) {}

  // What is slow among the others of `devices`.
  void judge(const std::vector<const CanaryDevice*>& devices,
             std::vector<CanaryFinding>& findings) const {
    for (const CanaryDevice* device : devices) {
      const std::optional<CanaryFinding> found = compare(*device, devices);
      if (found) findings.push_back(*found);
    }
  }

  void judge(const CanaryDevice& device, double expected,
             std::vector<CanaryFinding>& findings) const {
    if (expected <= 0 || device.*figure_ * kSlowDevice >= expected) return;
    CanaryFinding found = of(device, expected);
    found.against_calibration = true;
    findings.push_back(found);
  }

 private:
  CanaryFinding of(const CanaryDevice& device, double expected) const {
    CanaryFinding found;
    found.test = test_;
    found.rank = device.rank;
    found.host = device.host;
    found.measured = device.*figure_;
    found.expected = expected;
    return found;
  }

  std::optional<CanaryFinding> compare(const CanaryDevice& device,
                                       const std::vector<const CanaryDevice*>& devices) const {
    std::vector<double> peers;
    for (const CanaryDevice* other : devices) {
      if (other->rank != device.rank) peers.push_back(std::log(other->*figure_));
    }
    if (peers.empty()) return std::nullopt;
    const double own = std::log(device.*figure_);
    const double usual = median(peers);
    const double score = (usual - own) / std::max(robust_spread(peers), kDeviceSpread);
    if (usual - own <= std::log(kSlowDevice) || score < kOutlierScore) return std::nullopt;
    CanaryFinding found = of(device, std::exp(usual));
    found.score = score;
    return found;
  }

  CanaryTest test_;
  double CanaryDevice::*figure_;
};

void judge_devices(const std::set<std::string>& busy, CanaryResult& result) {
  std::vector<const CanaryDevice*> compared;
  for (const CanaryDevice& device : result.devices) {
    if (!busy.contains(device.host)) compared.push_back(&device);
  }
  std::vector<CanaryFinding>& findings = result.findings;
  Comparison(CanaryTest::kCpuShare, &CanaryDevice::cpu_share).judge(compared, findings);
  Comparison(CanaryTest::kGemm, &CanaryDevice::gemm_flops_per_cpu_s).judge(compared, findings);
  Comparison(CanaryTest::kCopy, &CanaryDevice::copy_bytes_per_cpu_s).judge(compared, findings);
  const CanaryExpectation& expected = result.expectation;
  for (const CanaryDevice& device : result.devices) {
    Comparison(CanaryTest::kGemm, &CanaryDevice::gemm_flops)
        .judge(device, expected.gemm_flops, findings);
    Comparison(CanaryTest::kCopy, &CanaryDevice::copy_bytes_per_s)
        .judge(device, expected.copy_bytes_per_s, findings);
  }
}

class Links {
 public:
  Links(const std::set<std::string>& busy, CanaryResult& result) : busy_(busy), result_(result) {
    for (const CanaryDevice& device : result.devices) hosts_.push_back(device.host);
  }

  void judge() {
    std::vector<collectives::PairRow> compared;
    for (const collectives::PairRow& link : result_.links) {
      if (!busy_.contains(host(link.a)) && !busy_.contains(host(link.b))) compared.push_back(link);
    }
    for (const auto& slow : find_slow_pairs(compared, hosts_, kLatencyFloorS)) judge_peers(slow);
    for (const collectives::PairRow& link : result_.links) judge_calibrated(link);
  }

 private:
  const std::string& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

  // The worst link stands for a rank that is slow in all of its own.
  void judge_peers(const collectives::SlowPairs& slow) {
    using collectives::PairRow;
    if (slow.rank < 0) {
      for (const PairRow& link : slow.pairs) add(link, slow);
      return;
    }
    const auto worse = [](const PairRow& a, const PairRow& b) {
      return a.bandwidth_gbps < b.bandwidth_gbps;
    };
    add(*std::min_element(slow.pairs.begin(), slow.pairs.end(), worse), slow);
    CanaryFinding& found = result_.findings.back();
    found.rank = slow.rank;
    found.host = host(slow.rank);
    found.peer = -1;
    found.peer_host.clear();
  }

  void add(const collectives::PairRow& link, const collectives::SlowPairs& slow) {
    const bool bandwidth = link.bandwidth_gbps * collectives::kSlowPair < slow.usual_bandwidth_gbps;
    CanaryFinding found = of(link);
    found.test = bandwidth ? CanaryTest::kBandwidth : CanaryTest::kLatency;
    found.measured = bandwidth ? 1e9 * link.bandwidth_gbps : link.latency_s;
    found.expected = bandwidth ? 1e9 * slow.usual_bandwidth_gbps : slow.usual_latency_s;
    result_.findings.push_back(found);
  }

  void judge_calibrated(const collectives::PairRow& link) {
    const CanaryExpectation& known = result_.expectation;
    const double expected = host(link.a) == host(link.b) ? known.inside_link_bytes_per_s
                                                         : known.across_link_bytes_per_s;
    if (expected <= 0 || 1e9 * link.bandwidth_gbps * collectives::kSlowPair >= expected) return;
    CanaryFinding found = of(link);
    found.test = CanaryTest::kBandwidth;
    found.measured = 1e9 * link.bandwidth_gbps;
    found.expected = expected;
    found.against_calibration = true;
    result_.findings.push_back(found);
  }

  CanaryFinding of(const collectives::PairRow& link) const {
    CanaryFinding found;
    found.rank = link.a;
    found.peer = link.b;
    found.host = host(link.a);
    found.peer_host = host(link.b);
    return found;
  }

  const std::set<std::string>& busy_;
  CanaryResult& result_;
  std::vector<std::string> hosts_;
};

}  // namespace

void judge_canary(CanaryResult& result) {
  const std::set<std::string> busy = find_busy_hosts(result.devices);
  result.busy_hosts.assign(busy.begin(), busy.end());
  result.findings.clear();
  judge_devices(busy, result);
  Links(busy, result).judge();
}

}  // namespace nqd::engine
