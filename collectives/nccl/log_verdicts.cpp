#include "collectives/nccl/log_verdicts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string>

#include "collectives/nccl/log_parts.h"

namespace nqd::collectives {
namespace {

using Verdicts = std::vector<Verdict>;

void judge_direct(const NcclLog& log, Verdicts& verdicts) {
  std::size_t staged = 0;
  std::size_t judged = 0;
  std::string example;
  std::set<std::string> hosts;
  std::set<std::string> direct_hosts;
  // Without NVLink NCCL reads GPU memory for sends through the host on purpose (ncclTopoCheckGdr),
  // so the receiving ends decide where there are any.
  const bool receivers = any_edge(log, [](const NcclEdge& edge) { return edge.receives; });
  for (const NcclProcess& process : log.processes) {
    for (const NcclEdge& edge : process.edges) {
      if (!is_rdma_edge(edge) || !edge.gpu_direct || edge.receives != receivers) continue;
      ++judged;
      (*edge.gpu_direct ? direct_hosts : hosts).insert(process.host);
      if (*edge.gpu_direct) continue;
      ++staged;
      if (example.empty()) example = describe(process, edge);
    }
  }
  const NcclProcess* refused =
      find_process(log, [](const NcclProcess& process) { return !process.gdr_disabled.empty(); });
  if (staged == 0 && (refused == nullptr || judged > 0)) return;
  const bool all = staged == judged;
  Verdict verdict{"gpudirect-off",
                  "warning",
                  all ? "certain" : "likely",
                  "",
                  "every NET/IB edge /GDRDMA",
                  "data between NIC and GPU passes through host memory",
                  ""};
  if (staged > 0) {
    verdict.evidence =
        count_of(staged, judged, "network edges") + " without /GDRDMA, as " + example;
    if (!all) verdict.evidence += "; on " + joined_names(hosts);
  }
  if (refused != nullptr) {
    if (!verdict.evidence.empty()) verdict.evidence += "; ";
    verdict.evidence +=
        quote(*refused, "GPU Direct RDMA Disabled for HCA " + refused->gdr_disabled.front());
  }
  verdict.next_step =
      "load nvidia-peermem (or use a kernel and driver with DMA-BUF), keep GPU and NIC under one "
      "PCIe switch, and see that NCCL_NET_GDR_LEVEL is not set; NVIDIA/nccl#1412 went from 33 to "
      "93 GB/s";
  verdicts.push_back(std::move(verdict));
}

// Adapters that the edges of each host use.
void judge_rails(const NcclLog& log, const FabricPromise& promise, Verdicts& verdicts) {
  struct Host {
    std::size_t adapters = 0;
    std::string list;
    std::set<int> used;
    std::set<int> ranks;
    bool merged = false;
  };
  std::map<std::string, Host> hosts;
  for (const NcclProcess& process : log.processes) {
    Host& host = hosts[process.host];
    host.merged |= process.adapters_merged;
    if (process.adapters && process.adapters->size() > host.adapters) {
      host.adapters = process.adapters->size();
      host.list = joined_names(*process.adapters);
    }
    for (const NcclEdge& edge : process.edges) {
      if (!is_rdma_edge(edge)) continue;
      host.used.insert(edge.device);
      host.ranks.insert(edge.receives ? edge.to : edge.from);
    }
  }
  const auto promised = static_cast<std::size_t>(std::max(0, promise.adapters_per_node));
  for (const auto& [name, host] : hosts) {
    const bool few = host.adapters == 1 && promised > 1;
    // One rank talks to the network through one adapter; several share one only when they must.
    const bool unused =
        host.adapters > 1 && host.used.size() == 1 && host.ranks.size() > 1 && !host.merged;
    if (!few && !unused) continue;
    const std::string where = name.empty() ? "" : "host " + name + ": ";
    Verdict verdict{"one-rail", "error", "certain", "", "", "", ""};
    if (few) {
      verdict.evidence = where + "NET/IB : Using " + host.list;
      verdict.threshold = std::to_string(promised) + " adapters a node (" + promise.source + ")";
      verdict.cause =
          "NCCL sees one adapter of several: the others are down, hidden from the "
          "container, or left out by NCCL_IB_HCA";
    } else {
      verdict.evidence = where + std::to_string(host.ranks.size()) +
                         " ranks, all network edges via device " +
                         std::to_string(*host.used.begin()) + " of " +
                         std::to_string(host.adapters) + " (" + host.list + ")";
      verdict.threshold = "more than one adapter in use where there are several";
      verdict.cause = "one adapter carries the traffic of all GPUs of the node";
    }
    verdict.next_step =
        "ibstat on the host and in the container; unset NCCL_IB_HCA, or list every "
        "compute adapter in it; look at the topology with NCCL_TOPO_DUMP_FILE";
    verdicts.push_back(std::move(verdict));
    return;
  }
}

// Bridges and pairs of containers and virtual machines, and the loopback: no way to another node.
bool is_virtual(std::string_view interface) {
  constexpr std::array<std::string_view, 9> kLeads = {"docker",  "veth", "virbr", "br-", "cni",
                                                      "flannel", "cali", "vnet",  "tap"};
  if (interface == "lo") return true;
  return std::any_of(kLeads.begin(), kLeads.end(),
                     [&](std::string_view lead) { return interface.starts_with(lead); });
}

void judge_interfaces(const NcclLog& log, bool across, Verdicts& verdicts) {
  const bool known_inside = !across && all_inside_node(log);
  if (known_inside) return;
  for (const NcclProcess& process : log.processes) {
    std::string evidence;
    if (is_virtual(process.bootstrap_interface)) {
      evidence = quote(process, "Bootstrap : Using " + process.bootstrap_interface);
    } else if (process.interfaces && !process.interfaces->empty() &&
               std::any_of(process.interfaces->begin(), process.interfaces->end(), is_virtual)) {
      evidence = quote(process, "NET/Socket : Using " + joined_names(*process.interfaces));
    }
    if (evidence.empty()) continue;
    verdicts.push_back({"wrong-interface", across ? "error" : "warning",
                        across ? "certain" : "suspected", evidence,
                        "no docker, veth, virbr, bridge or lo between nodes",
                        "NCCL took an interface that does not reach the other nodes; the job hangs "
                        "or is slow",
                        "set NCCL_SOCKET_IFNAME to the interface that joins the nodes (ip -br "
                        "addr), such as NCCL_SOCKET_IFNAME=eth0, on every node"});
    return;
  }
}

void judge_peer_to_peer(const NcclLog& log, const FabricPromise& promise, Verdicts& verdicts) {
  std::size_t shared = 0;
  std::size_t peer = 0;
  std::string example;
  for (const NcclProcess& process : log.processes) {
    for (const NcclEdge& edge : process.edges) {
      if (edge.kind == NcclEdge::Kind::kPeerToPeer) ++peer;
      if (edge.kind != NcclEdge::Kind::kSharedMemory) continue;
      ++shared;
      if (example.empty()) example = describe(process, edge);
    }
  }
  const auto [warner, warning] = find_warning(log, "P2P is disabled between");
  const auto [setter, setting] = find_setting(log, "NCCL_P2P_DISABLE");
  const bool set = setter != nullptr && is_on(setting);
  const bool slow = shared > 0 && promise.scale_up();
  if (!slow && warner == nullptr && !(set && shared > 0)) return;
  std::string evidence;
  if (shared > 0) {
    evidence =
        count_of(shared, shared + peer, "edges inside nodes") + " via host memory, as " + example;
  }
  if (set)
    evidence += (evidence.empty() ? "" : "; ") + quote(*setter, "NCCL_P2P_DISABLE=" + setting);
  if (warner != nullptr) evidence += (evidence.empty() ? "" : "; ") + quote(*warner, warning);
  verdicts.push_back(
      {"p2p-disabled", slow || warner != nullptr ? "error" : "warning", "certain", evidence,
       promise.scale_up() ? "P2P between all GPUs of a node (" + promise.source + ")"
                          : "P2P where GPUs are linked",
       set ? "NCCL_P2P_DISABLE=" + setting + " forbids direct copies between GPUs"
           : "GPUs of a node exchange data through host memory instead of NVLink",
       set ? "unset NCCL_P2P_DISABLE"
           : "nvidia-smi topo -m and topo -p2p r; give the container all GPUs and --ipc=host; turn "
             "PCIe ACS off"});
}

void judge_duplicates(const NcclLog& log, Verdicts& verdicts) {
  for (const std::string_view sign : {"Duplicate GPU detected", "using the same GPU"}) {
    const auto [process, text] = find_warning(log, sign);
    if (process == nullptr) continue;
    verdicts.push_back(
        {"duplicate-gpu", "error", "certain", quote(*process, text), "one rank a GPU",
         "two ranks were given one GPU, most often because every process of a node "
         "uses device 0",
         "set the device from the local rank (OMPI_COMM_WORLD_LOCAL_RANK, LOCAL_RANK, "
         "SLURM_LOCALID), and start at most as many ranks as a node has GPUs"});
    return;
  }
}

void judge_transport(const NcclLog& log, Verdicts& verdicts) {
  const auto [process, text] = find_warning(log, "Got completion ");
  if (process == nullptr) return;
  verdicts.push_back({"transport-error", "error", "certain", quote(*process, text),
                      "no failed completion",
                      "an RDMA operation failed: error 12 is a peer that never answered (cable, "
                      "switch, wrong GID or partition), 5 and 9 follow from another failure",
                      "ib_write_bw between the two hosts of the line; on RoCE set "
                      "NCCL_IB_GID_INDEX to a RoCE v2 address and look at the switches' PFC"});
}

void judge_singletons(const NcclLog& log, Verdicts& verdicts) {
  std::size_t alone = 0;
  std::string example;
  for (const NcclProcess& process : log.processes) {
    for (const NcclComm& comm : process.comms) {
      if (comm.ranks > 1) return;
      if (comm.ranks != 1) continue;
      ++alone;
      if (example.empty()) example = quote(process, "comm " + comm.id + " rank 0 nranks 1");
      break;
    }
  }
  if (alone < 2) return;
  verdicts.push_back(
      {"singletons", "error", "certain",
       std::to_string(alone) + " processes, each with nranks 1: " + example,
       "one communicator of all ranks",
       "the processes do not know of each other: a program built without MPI, or "
       "started by another MPI library's mpirun",
       "build nccl-tests with MPI=1 MPI_HOME=…, and start it with the mpirun of that "
       "MPI library"});
}

}  // namespace

std::vector<Verdict> judge_nccl_log(const NcclLog& log, const FabricPromise& promise, bool ran) {
  Verdicts verdicts;
  const bool across = crosses_nodes(log, promise);
  judge_sockets(log, promise, across, verdicts);
  judge_interfaces(log, across, verdicts);
  judge_direct(log, verdicts);
  judge_rails(log, promise, verdicts);
  judge_peer_to_peer(log, promise, verdicts);
  judge_duplicates(log, verdicts);
  judge_transport(log, verdicts);
  judge_singletons(log, verdicts);
  if (!ran) judge_init(log, verdicts);
  judge_environment(log, verdicts);
  return verdicts;
}

}  // namespace nqd::collectives
