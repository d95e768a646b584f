// What the verdicts on a log share: looking things up in it, and quoting it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/fabric_promise.h"
#include "collectives/nccl/log.h"

namespace nqd::collectives {

// "node1:417: text", cut to what a line can hold.
std::string quote(const NcclProcess& process, std::string_view text);
// "node1:417: 3 -> 11 via NET/IB/0".
std::string describe(const NcclProcess& process, const NcclEdge& edge);
// "4 of 16 edges".
std::string count_of(std::size_t part, std::size_t all, std::string_view what);

template <typename Names>
std::string joined_names(const Names& names) {
  constexpr std::size_t kMost = 16;
  std::string text;
  std::size_t shown = 0;
  for (const auto& name : names) {
    if (shown++ == kMost) return text + ", …";
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

bool is_rdma_network(std::string_view network);
inline bool is_rdma_edge(const NcclEdge& edge) {
  return edge.kind == NcclEdge::Kind::kNetwork && is_rdma_network(edge.network);
}

template <typename Holds>
const NcclProcess* find_process(const NcclLog& log, Holds holds) {
  const auto found = std::find_if(log.processes.begin(), log.processes.end(), holds);
  return found == log.processes.end() ? nullptr : &*found;
}

template <typename Holds>
bool any_edge(const NcclLog& log, Holds holds) {
  return find_process(log, [&](const NcclProcess& process) {
           return std::any_of(process.edges.begin(), process.edges.end(), holds);
         }) != nullptr;
}

// Every communicator whose nodes were logged lies on one.
bool all_inside_node(const NcclLog& log);

// The first process with a warning that contains `sign`, and that warning; null without one.
std::pair<const NcclProcess*, std::string> find_warning(const NcclLog& log, std::string_view sign);
// The first process in whose environment `name` is set, and the value.
std::pair<const NcclProcess*, std::string> find_setting(const NcclLog& log, std::string_view name);
// A switch that is not "0".
bool is_on(std::string_view value);

// Each in a file of its own.
void judge_sockets(const NcclLog& log, const FabricPromise& promise, bool across,
                   std::vector<Verdict>& verdicts);
void judge_init(const NcclLog& log, std::vector<Verdict>& verdicts);
void judge_environment(const NcclLog& log, std::vector<Verdict>& verdicts);

}  // namespace nqd::collectives
