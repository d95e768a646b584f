// TCP where RDMA is there, or was meant to be.
#include <string>

#include "collectives/nccl/log_parts.h"

namespace nqd::collectives {
namespace {

bool uses_sockets(const NcclProcess& process) {
  if (process.network == "Socket") return true;
  return std::any_of(process.edges.begin(), process.edges.end(), [](const NcclEdge& edge) {
    return edge.kind == NcclEdge::Kind::kNetwork && edge.network == "Socket";
  });
}

bool uses_rdma(const NcclProcess& process) {
  return is_rdma_network(process.network) ||
         std::any_of(process.edges.begin(), process.edges.end(), is_rdma_edge);
}

// Why NCCL did not take an RDMA adapter; `line` is what says so.
struct Reason {
  std::string line, cause, next_step;
};

Reason reason_of(const NcclProcess& process, bool promised) {
  for (const auto& [name, value] : process.environment) {
    const bool disables = name == "NCCL_IB_DISABLE" && is_on(value);
    if (disables || (name == "NCCL_NET" && value == "Socket")) {
      return {name + " set by environment to " + value,
              "the environment forbids RDMA: " + name + "=" + value, "unset " + name};
    }
  }
  if (!process.plugin_failure.empty()) {
    return {process.plugin_failure,
            "the network plugin failed to start, and NCCL fell back to its own transports",
            "look at the lines of the plugin before this one; for EFA run fi_info -p efa in the "
            "container and give it the devices (/dev/infiniband/uverbs*)"};
  }
  if (process.verbs_missing) {
    return {"Failed to open libibverbs.so", "the image lacks libibverbs, so NCCL cannot use RDMA",
            "install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs and "
            "rdma-core in the image"};
  }
  if (!process.adapter_failure.empty()) {
    return {
        process.adapter_failure, "an adapter is there, but this process may not open it",
        "give the container --device=/dev/infiniband and --ulimit memlock=-1 (NVIDIA/nccl#451)"};
  }
  if (process.adapters && process.adapters->empty()) {
    return {"NET/IB : No device found",
            promised ? "no RDMA device is visible to NCCL, though the fabric has them"
                     : "no RDMA device is visible to NCCL",
            "ls /sys/class/infiniband on the host and in the container; give the container "
            "--device=/dev/infiniband; ibstat must say Active (NVIDIA/nccl#941, #952)"};
  }
  return {"", "NCCL uses TCP; the log does not say why",
          "log again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV from the start on"};
}

// What tells that RDMA is there or was meant; empty when nothing does.
std::string rdma_sign(const NcclLog& log, const FabricPromise& promise) {
  if (promise.rdma()) return promise.source + " promises RDMA";
  for (const NcclProcess& process : log.processes) {
    if (process.adapters && !process.adapters->empty()) {
      return quote(process, "NET/IB : Using " + joined_names(*process.adapters));
    }
    if (uses_rdma(process)) return quote(process, "uses " + process.network);
    if (!process.adapter_failure.empty()) return quote(process, process.adapter_failure);
    if (!process.plugin_failure.empty()) return quote(process, process.plugin_failure);
  }
  return {};
}

}  // namespace

void judge_sockets(const NcclLog& log, const FabricPromise& promise, bool across,
                   std::vector<Verdict>& verdicts) {
  // Inside a node the network is chosen too, and carries nothing.
  if (!across) return;
  std::size_t users = 0;
  const NcclProcess* first = nullptr;
  for (const NcclProcess& process : log.processes) {
    if (!uses_sockets(process)) continue;
    ++users;
    if (first == nullptr) first = &process;
  }
  if (first == nullptr) return;
  const std::string sign = rdma_sign(log, promise);
  const bool promised = !sign.empty();
  const Reason reason = reason_of(*first, promised);
  std::string evidence = count_of(users, log.processes.size(), "processes") + ": ";
  if (first->network == "Socket") {
    evidence += quote(*first, "Using network Socket");
  } else {
    const auto edge = std::find_if(first->edges.begin(), first->edges.end(),
                                   [](const NcclEdge& e) { return e.network == "Socket"; });
    evidence += describe(*first, *edge);
  }
  if (!reason.line.empty()) evidence += "; " + quote(*first, reason.line);
  if (promised && sign != quote(*first, reason.line)) evidence += "; " + sign;
  if (!promised) evidence += "; no sign of an RDMA device";
  verdicts.push_back({"socket-fallback", promised ? "error" : "warning",
                      promised ? "certain" : "likely", evidence,
                      "no TCP between nodes that have RDMA",
                      "data between nodes goes over TCP: " + reason.cause, reason.next_step});
}

}  // namespace nqd::collectives
