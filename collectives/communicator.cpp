#include "collectives/communicator.h"

#include <utility>

namespace nqd::collectives {

PeerLostError::PeerLostError(int lost_rank, std::string host, const std::string& message,
                             bool failed)
    : Error(
          ExitCode::kFault, "NQD4001", message,
          "look at that rank's own output and at its host's kernel log (out of memory, hardware); "
          "then start the job again from its last checkpoint"),
      lost_rank_(lost_rank),
      host_(std::move(host)),
      failed_(failed) {}

TimeoutError::TimeoutError(std::vector<int> waiting_for, std::string host,
                           const std::string& message)
    : Error(
          ExitCode::kFault, "NQD4002", message,
          "a rank without heartbeat is stopped or its host hangs; one that is merely late needs a "
          "longer deadline"),
      waiting_for_(std::move(waiting_for)),
      host_(std::move(host)) {}

void Communicator::all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                              ReduceOp op, Algorithm algorithm) {
  run({Collective::kAllReduce, in, out, type, op}, algorithm);
}

void Communicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                              Algorithm algorithm) {
  run({Collective::kAllGather, in, out, type}, algorithm);
}

void Communicator::reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                                  DType type, ReduceOp op, Algorithm algorithm) {
  run({Collective::kReduceScatter, in, out, type, op}, algorithm);
}

void Communicator::reduce(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                          ReduceOp op, int root, Algorithm algorithm) {
  run({Collective::kReduce, in, out, type, op, root}, algorithm);
}

void Communicator::gather(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                          int root, Algorithm algorithm) {
  run({Collective::kGather, in, out, type, ReduceOp::kSum, root}, algorithm);
}

void Communicator::scatter(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                           int root, Algorithm algorithm) {
  run({Collective::kScatter, in, out, type, ReduceOp::kSum, root}, algorithm);
}

void Communicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                              Algorithm algorithm) {
  run({Collective::kAllToAll, in, out, type}, algorithm);
}

void Communicator::all_to_all_v(std::span<const std::byte> in,
                                std::span<const std::size_t> in_counts, std::span<std::byte> out,
                                std::span<const std::size_t> out_counts, DType type,
                                Algorithm algorithm) {
  run({Collective::kAllToAll, in, out, type, ReduceOp::kSum, 0, in_counts, out_counts}, algorithm);
}

void Communicator::broadcast(std::span<std::byte> data, int root, Algorithm algorithm) {
  run({Collective::kBroadcast, {}, data, DType::kUInt8, ReduceOp::kSum, root}, algorithm);
}

void Communicator::barrier() { run({}, Algorithm::kAuto); }

Work Communicator::all_reduce_async(std::span<std::byte> data, DType type, ReduceOp op,
                                    Algorithm algorithm) {
  return start({Collective::kAllReduce, data, data, type, op}, algorithm);
}

int ranks_on_this_host(const Communicator& communicator) {
  const std::string& own = communicator.host(communicator.rank());
  int here = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    here += communicator.host(rank) == own ? 1 : 0;
  }
  return here;
}

}  // namespace nqd::collectives
