#include "collectives/dispatch.h"

#include <optional>
#include <string>

#include "collectives/algorithms/direct.h"
#include "collectives/algorithms/doubling.h"
#include "collectives/algorithms/hierarchical.h"
#include "collectives/algorithms/linear.h"
#include "collectives/algorithms/pairwise.h"
#include "collectives/algorithms/ring.h"
#include "collectives/algorithms/tree.h"
#include "collectives/call_check.h"

namespace nqd::collectives {
namespace {

std::optional<RankTraffic> direct(PeerMemory& peers, Scratch& scratch, const CollectiveCall& c) {
  switch (c.collective) {
    case Collective::kAllReduce:
      return direct_all_reduce(peers, scratch, c.in, c.out, c.type, c.op);
    case Collective::kAllGather:
      return direct_all_gather(peers, c.in, c.out, c.type);
    case Collective::kReduceScatter:
      return direct_reduce_scatter(peers, scratch, c.in, c.out, c.type, c.op);
    case Collective::kBroadcast:
      return direct_broadcast(peers, c.out, c.root);
    case Collective::kReduce:
      return direct_reduce(peers, scratch, c.in, c.out, c.type, c.op, c.root);
    case Collective::kAllToAll:
      return c.has_counts() ? direct_all_to_all_v(peers, c)
                            : direct_all_to_all(peers, c.in, c.out, c.type);
    case Collective::kGather:
      return direct_gather(peers, c.in, c.out, c.type, c.root);
    case Collective::kScatter:
      return direct_scatter(peers, c.in, c.out, c.type, c.root);
    case Collective::kBarrier:
    case Collective::kSendRecv:
      break;
  }
  // Not sync() alone: ranks that crossed a barrier with another call must be told so.
  peers.exchange_small({}, {});
  peers.close_small();
  return RankTraffic{};
}

void run_direct(Transport& transport, Scratch& scratch, const CollectiveCall& call) {
  PeerMemory* const peers = transport.peer_memory();
  if (peers == nullptr) {
    throw Error(ExitCode::kUsage, "NQD2102",
                "the ranks of group " + transport.group() +
                    " do not share memory, so direct collectives cannot run",
                "use another algorithm; ranks of one host share memory when they see each other's "
                "processes");
  }
  const std::optional<RankTraffic> moved = direct(*peers, scratch, call);
  if (!moved) {
    throw Error(ExitCode::kUsage, "NQD2102",
                "a direct collective on private buffers reads the memory of other processes, which "
                "this system forbids",
                "give the collective shared buffers, use another algorithm, or allow "
                "process_vm_readv (ptrace scope, seccomp)");
  }
  transport.count(*moved);
}

void all_reduce(Transport& transport, Scratch& scratch, const CollectiveCall& c,
                Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kTree:
      return tree_all_reduce(transport, scratch, c.in, c.out, c.type, c.op);
    case Algorithm::kRecursiveDoubling:
      return recursive_doubling_all_reduce(transport, scratch, c.in, c.out, c.type, c.op);
    case Algorithm::kHalvingDoubling:
      return halving_doubling_all_reduce(transport, scratch, c.in, c.out, c.type, c.op);
    case Algorithm::kHierarchical:
      return hierarchical_all_reduce(transport, scratch, c.in, c.out, c.type, c.op);
    case Algorithm::kPairwise:
      return pairwise_all_reduce(transport, scratch, c.in, c.out, c.type, c.op);
    default:
      return ring_all_reduce(transport, scratch, c.in, c.out, c.type, c.op);
  }
}

void reduce_scatter(Transport& transport, Scratch& scratch, const CollectiveCall& c,
                    Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kPairwise:
      return pairwise_reduce_scatter(transport, scratch, c.in, c.out, c.type, c.op);
    case Algorithm::kHierarchical:
      return hierarchical_reduce_scatter(transport, scratch, c.in, c.out, c.type, c.op);
    case Algorithm::kHalvingDoubling:
      return halving_reduce_scatter(transport, scratch, c.in, c.out, c.type, c.op);
    default:
      return ring_reduce_scatter(transport, scratch, c.in, c.out, c.type, c.op);
  }
}

void all_gather(Transport& transport, Scratch& scratch, const CollectiveCall& c,
                Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kHierarchical:
      return hierarchical_all_gather(transport, scratch, c.in, c.out, c.type);
    case Algorithm::kHalvingDoubling:
      return doubling_all_gather(transport, c.in, c.out, c.type);
    default:
      return ring_all_gather(transport, c.in, c.out, c.type);
  }
}

void by_messages(Transport& transport, Scratch& scratch, const CollectiveCall& c,
                 Algorithm algorithm) {
  switch (c.collective) {
    case Collective::kAllReduce:
      return all_reduce(transport, scratch, c, algorithm);
    case Collective::kReduceScatter:
      return reduce_scatter(transport, scratch, c, algorithm);
    case Collective::kAllGather:
      return all_gather(transport, scratch, c, algorithm);
    case Collective::kBroadcast:
      return tree_broadcast(transport, c.out, c.root);
    case Collective::kReduce:
      return tree_reduce(transport, scratch, c.in, c.out, c.type, c.op, c.root);
    case Collective::kAllToAll:
      return c.has_counts() ? pairwise_all_to_all_v(transport, c)
                            : pairwise_all_to_all(transport, c.in, c.out, c.type);
    case Collective::kGather:
      return linear_gather(transport, c.in, c.out, c.type, c.root);
    case Collective::kScatter:
      return linear_scatter(transport, c.in, c.out, c.type, c.root);
    case Collective::kBarrier:
    case Collective::kSendRecv:
      return dissemination_barrier(transport);
  }
}

}  // namespace

std::optional<std::uint64_t> payload_bytes(const CollectiveCall& call) {
  switch (call.collective) {
    case Collective::kGather:
    case Collective::kScatter:
      return std::nullopt;
    case Collective::kAllGather:
    case Collective::kBroadcast:
      return call.out.size();
    default:
      return call.has_counts() ? std::nullopt : std::optional<std::uint64_t>(call.in.size());
  }
}

void run_collective(Transport& transport, Scratch& scratch, const CollectiveCall& call,
                    Algorithm algorithm, bool check) {
  transport.begin(call.collective);
  try {
    if (check) check_same_call(transport, call, algorithm);
    if (algorithm == Algorithm::kDirect) {
      run_direct(transport, scratch, call);
    } else if (algorithm == Algorithm::kLibrary) {
      transport.library_collective(call);
    } else {
      by_messages(transport, scratch, call, algorithm);
    }
  } catch (const Error& error) {
    if (error.exit_code() == ExitCode::kFault) transport.break_off(std::current_exception());
    throw;
  }
  transport.end();
}

}  // namespace nqd::collectives
