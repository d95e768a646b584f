// Verdicts on what the bytes between ranks went over.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/units.h"
#include "collectives/bench/series.h"
#include "collectives/bench/verdicts.h"

namespace nqd::collectives {
namespace {

std::string gbps(double bytes_per_s) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f GB/s", bytes_per_s / 1e9);
  return text.data();
}

// Whether a comma list such as "tcp,self" names `word`.
bool lists(std::string_view list, std::string_view word) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

template <std::size_t N>
bool lists_any(std::string_view list, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return lists(list, word); });
}

// What makes MPI of this rank use TCP sockets alone; empty when nothing says so. A list that begins
// with ^ excludes, and what is left then is not known.
std::string tcp_setting(const RankRecord& rank, bool one_host) {
  constexpr std::array<std::string_view, 6> kRemote = {"openib", "ofi",  "portals4",
                                                       "uct",    "ugni", "usnic"};
  constexpr std::array<std::string_view, 3> kLocal = {"vader", "sm", "smcuda"};
  constexpr std::array<std::string_view, 9> kUcx = {"rc",   "rc_v", "rc_verbs", "rc_x", "rc_mlx5",
                                                    "dc_x", "ud",   "ud_x",     "ib"};
  const std::string btl = value_of(rank.environment, "OMPI_MCA_btl");
  if (lists(btl, "tcp") && !lists_any(btl, kRemote) && !(one_host && lists_any(btl, kLocal))) {
    return "Open MPI's btl is " + btl;
  }
  const std::string tls = value_of(rank.environment, "UCX_TLS");
  if (lists(tls, "tcp") && !lists_any(tls, kUcx) && !lists(tls, "all")) return "UCX_TLS is " + tls;
  const std::string provider = value_of(rank.environment, "FI_PROVIDER");
  if (provider.starts_with("tcp") || provider.starts_with("sockets")) {
    return "libfabric's provider is " + provider;
  }
  return {};
}

bool is_over_mpi(const BenchRow& row) {
  return row.backend == "mpi" &&
         (row.algorithm == "library" || (row.transport == "mpi" && row.algorithm != "direct"));
}

// RDMA that the run could have used: what says so, and its rate.
struct Promise {
  std::string source;
  double bytes_per_s = 0;  // of one host; 0 = unknown
  bool by_user = false;
};

Promise promise_of(const Findings& findings) {
  if (findings.promised_bytes_per_s > 0) {
    return {"the cluster file promises " + gbps(findings.promised_bytes_per_s) + " between nodes",
            findings.promised_bytes_per_s, true};
  }
  for (const HostRecord& host : findings.machine.hosts) {
    Promise promise;
    for (const RdmaPort& port : host.start.rdma_ports) {
      if (!port.is_active()) continue;
      promise.source += (promise.source.empty() ? "" : ", ") + port.name();
      promise.bytes_per_s += port.rate_gbits * 1e9 / 8;
    }
    if (promise.source.empty()) continue;
    promise.source = "host " + host.host + " has active RDMA ports " + promise.source + " of " +
                     gbps(promise.bytes_per_s);
    return promise;
  }
  return {};
}

// The best plateau row that went over MPI; null without one.
const BenchRow* best_plateau_row(std::span<const BenchRow> rows) {
  const BenchRow* best = nullptr;
  for (const Series& series : series_of(rows)) {
    for (const BenchRow* row : plateau_of(series)) {
      if (!is_over_mpi(*row)) continue;
      if (best == nullptr || row->busbw_gbps > best->busbw_gbps) best = row;
    }
  }
  return best;
}

// Maintainers of NCCL call 24 GB/s of a 200 Gb/s adapter good, users who had fallen back to sockets
// saw a fifth of that: half of the rate parts the two.
constexpr double kPromiseShare = 0.5;

void judge_sockets(const Findings& findings, std::vector<Verdict>& verdicts) {
  const Promise promise = promise_of(findings);
  if (promise.source.empty() || findings.machine.ranks.empty()) return;
  const bool one_host = findings.machine.hosts.size() == 1;
  const std::string tcp = tcp_setting(findings.machine.ranks.front(), one_host);
  const BenchRow* const best = best_plateau_row(findings.rows);
  const bool slow = !one_host && best != nullptr && promise.bytes_per_s > 0 &&
                    best->busbw_gbps * 1e9 < kPromiseShare * promise.bytes_per_s;
  if (tcp.empty() && !slow) return;
  std::string evidence = promise.source;
  if (!tcp.empty()) evidence += ", but " + tcp;
  if (best != nullptr) {
    evidence += "; the plateau of " + best->algorithm + " reaches " + gbps(best->busbw_gbps * 1e9) +
                " busbw";
  }
  // A promise that the user gave is a requirement; what an adapter could do is a remark.
  const bool broken = !tcp.empty() && promise.by_user;
  verdicts.push_back(
      {"socket-fallback", broken ? "error" : "warning", tcp.empty() ? "suspected" : "certain",
       evidence, "no TCP where RDMA is there, and plateau busbw >= 0.5 of its rate across nodes",
       "messages go through the kernel's TCP stack instead of the RDMA adapter",
       "let MPI choose (unset OMPI_MCA_btl, UCX_TLS, FI_PROVIDER); in a container give it "
       "/dev/infiniband, libibverbs and an unlimited memlock; see what `ibv_devinfo` lists"});
}

// What a device moved during the run, in the direction that moved more.
template <typename Device>
std::uint64_t moved(const Device& before, const std::vector<Device>& after) {
  const auto same = [&](const Device& device) {
    if constexpr (requires { device.port; }) {
      return device.device == before.device && device.port == before.port;
    } else {
      return device.name == before.name;
    }
  };
  const auto found = std::find_if(after.begin(), after.end(), same);
  if (found == after.end()) return 0;
  const auto grown = [](std::uint64_t from, std::uint64_t to) { return to > from ? to - from : 0; };
  return std::max(grown(before.sent_bytes, found->sent_bytes),
                  grown(before.received_bytes, found->received_bytes));
}

// A rail: an adapter or interface with a known speed.
struct Rail {
  std::string name;
  double gbits = 0;
  std::uint64_t moved_bytes = 0;
};

std::vector<Rail> interfaces_of(const HostRecord& host) {
  std::vector<Rail> rails;
  for (const NetworkInterface& interface : host.start.interfaces) {
    if (interface.state != "up" || !interface.speed_mbps) continue;
    rails.push_back({interface.name, static_cast<double>(*interface.speed_mbps) / 1e3,
                     moved(interface, host.end.interfaces)});
  }
  return rails;
}

std::vector<Rail> ports_of(const HostRecord& host) {
  std::vector<Rail> rails;
  for (const RdmaPort& port : host.start.rdma_ports) {
    if (!port.is_active() || port.rate_gbits <= 0) continue;
    rails.push_back({port.name(), port.rate_gbits, moved(port, host.end.rdma_ports)});
  }
  return rails;
}

// What every algorithm moves at least over a node's boundary: half of the vector in each call. Less
// was other traffic of the host.
double least_traffic(std::span<const BenchRow> rows) {
  double bytes = 0;
  for (const BenchRow& row : rows) {
    bytes +=
        0.5 * static_cast<double>(row.effective_bytes) * static_cast<double>(row.samples_s.size());
  }
  return bytes;
}

const Rail& busiest_of(const std::vector<Rail>& rails) {
  return *std::max_element(rails.begin(), rails.end(), [](const Rail& a, const Rail& b) {
    return a.moved_bytes < b.moved_bytes;
  });
}

std::string carried(const Rail& rail) {
  std::array<char, 48> speed{};
  std::snprintf(speed.data(), speed.size(), " (%g Gb/s) carried ", rail.gbits);
  return rail.name + speed.data() + format_bytes(static_cast<double>(rail.moved_bytes));
}

void judge_interface(const Findings& findings, std::vector<Verdict>& verdicts) {
  for (const HostRecord& host : findings.machine.hosts) {
    const std::vector<Rail> rails = interfaces_of(host);
    if (rails.empty()) continue;
    const Rail& used = busiest_of(rails);
    const Rail& fastest = *std::max_element(
        rails.begin(), rails.end(), [](const Rail& a, const Rail& b) { return a.gbits < b.gbits; });
    if (static_cast<double>(used.moved_bytes) < least_traffic(findings.rows)) continue;
    if (used.gbits >= fastest.gbits || findings.rows.empty()) continue;
    verdicts.push_back(
        {"wrong-interface", "warning", "likely",
         "on host " + host.host + " " + carried(used) + " during the run, and " + carried(fastest),
         "the busiest interface is as fast as the fastest that is up",
         "the traffic of the run took a slower network than the host has",
         "name the interface: OMPI_MCA_btl_tcp_if_include=" + fastest.name +
             ", UCX_NET_DEVICES=" + fastest.name + ", NCCL_SOCKET_IFNAME=" + fastest.name});
    return;
  }
}

// Two rails in use carry about a half each; a tenth is what other traffic of the host may be.
constexpr double kOneRailShare = 0.9;

void judge_rails(const Findings& findings, const HostRecord& host, std::vector<Rail> rails,
                 std::vector<Verdict>& verdicts) {
  if (rails.size() < 2 || findings.rows.empty()) return;
  const Rail& used = busiest_of(rails);
  const double speed = used.gbits;
  std::erase_if(rails, [&](const Rail& rail) { return rail.gbits != speed; });
  if (rails.size() < 2) return;
  double all = 0;
  std::string list;
  for (const Rail& rail : rails) {
    all += static_cast<double>(rail.moved_bytes);
    list += (list.empty() ? "" : ", ") + carried(rail);
  }
  const Rail& busiest = busiest_of(rails);
  const auto most = static_cast<double>(busiest.moved_bytes);
  if (most < least_traffic(findings.rows) || most < kOneRailShare * all) return;
  verdicts.push_back(
      {"one-rail", "warning", "likely", "on host " + host.host + " " + list,
       "the busiest of several rails of one speed carries < 90 % of their bytes",
       "one of " + std::to_string(rails.size()) + " adapters carries everything; the others idle",
       "let every rank use its own adapter: UCX_NET_DEVICES and UCX_MAX_RNDV_RAILS, "
       "NCCL_IB_HCA, OMPI_MCA_btl_tcp_if_include with all of them"});
}

}  // namespace

void judge_fabric(const Findings& findings, std::vector<Verdict>& verdicts) {
  if (!findings.ranks_are_processes) return;
  judge_sockets(findings, verdicts);
  judge_interface(findings, verdicts);
  for (const HostRecord& host : findings.machine.hosts) {
    judge_rails(findings, host, ports_of(host), verdicts);
    judge_rails(findings, host, interfaces_of(host), verdicts);
  }
}

}  // namespace nqd::collectives
