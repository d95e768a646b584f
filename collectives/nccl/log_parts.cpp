#include "collectives/nccl/log_parts.h"

#include <map>
#include <set>
#include <string>

#include "collectives/nccl/log_verdicts.h"

namespace nqd::collectives {

std::string quote(const NcclProcess& process, std::string_view text) {
  constexpr std::size_t kLongest = 200;
  const std::string who =
      process.host.empty() ? "" : process.host + ":" + std::to_string(process.pid) + ": ";
  return who + std::string(text.substr(0, kLongest)) + (text.size() > kLongest ? "…" : "");
}

std::string describe(const NcclProcess& process, const NcclEdge& edge) {
  std::string via = "P2P";
  if (edge.kind == NcclEdge::Kind::kSharedMemory) via = "SHM";
  if (edge.kind == NcclEdge::Kind::kNetwork) {
    via = "NET/" + edge.network + "/" + std::to_string(edge.device);
  }
  return quote(process,
               std::to_string(edge.from) + " -> " + std::to_string(edge.to) + " via " + via);
}

std::string count_of(std::size_t part, std::size_t all, std::string_view what) {
  return std::to_string(part) + " of " + std::to_string(all) + " " + std::string(what);
}

bool is_rdma_network(std::string_view network) {
  return network.starts_with("IB") || network == "AWS Libfabric" || network == "Libfabric" ||
         network == "UCX";
}

bool all_inside_node(const NcclLog& log) {
  bool known = false;
  for (const NcclProcess& process : log.processes) {
    for (const NcclComm& comm : process.comms) {
      if (comm.nodes > 1) return false;
      known |= comm.nodes == 1;
    }
  }
  return known;
}

std::pair<const NcclProcess*, std::string> find_warning(const NcclLog& log, std::string_view sign) {
  for (const NcclProcess& process : log.processes) {
    for (const std::string& warning : process.warnings) {
      if (warning.find(sign) != std::string::npos) return {&process, warning};
    }
  }
  return {nullptr, ""};
}

std::pair<const NcclProcess*, std::string> find_setting(const NcclLog& log, std::string_view name) {
  for (const NcclProcess& process : log.processes) {
    for (const auto& [key, value] : process.environment) {
      if (key == name) return {&process, value};
    }
  }
  return {nullptr, ""};
}

bool is_on(std::string_view value) { return !value.empty() && value != "0"; }

bool crosses_nodes(const NcclLog& log, const FabricPromise& promise) {
  if (all_inside_node(log)) return false;
  std::set<std::string> hosts;
  int ranks = 0;
  for (const NcclProcess& process : log.processes) {
    for (const NcclComm& comm : process.comms) {
      if (comm.nodes > 1) return true;
      ranks = std::max(ranks, comm.ranks);
    }
    if (!process.host.empty()) hosts.insert(process.host);
  }
  // Hosts of a job whose communicators all have one rank share nothing.
  if (hosts.size() > 1 && ranks != 1) return true;
  if (promise.gpus_per_node > 0 && ranks > promise.gpus_per_node) return true;
  return any_edge(log, [](const NcclEdge& edge) { return edge.kind == NcclEdge::Kind::kNetwork; });
}

}  // namespace nqd::collectives
