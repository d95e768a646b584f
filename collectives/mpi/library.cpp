// The library's own blocking collectives: what users run today, as the baseline of the bench.
#include <algorithm>
#include <climits>
#include <optional>
#include <vector>

#include "collectives/dispatch.h"
#include "collectives/mpi/mpi_check.h"
#include "collectives/mpi/mpi_transport.h"
#include "collectives/reduce.h"

namespace nqd::collectives::mpi {
namespace {

// Of elements that are only moved, where any type of that size will do.
MPI_Datatype moved_type(DType type) {
  switch (size_bytes(type)) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

MPI_Datatype added_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kInt64:
      return MPI_INT64_T;
    case DType::kUInt8:
      return MPI_UINT8_T;
    case DType::kBFloat16:
    case DType::kFloat16:
      break;
  }
  throw Error(ExitCode::kUsage, "NQD2102",
              "the MPI library cannot reduce " + std::string(name(type)),
              "use an algorithm of nqd, or float32");
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return MPI_SUM;
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kProd:
      return MPI_PROD;
  }
  return MPI_OP_NULL;
}

int int_count(std::size_t count) {
  if (count <= INT_MAX) return static_cast<int>(count);
  throw Error(ExitCode::kUsage, "NQD2102",
              "the MPI library counts elements in an int, and " + std::to_string(count) +
                  " are more than it holds",
              "use an algorithm of nqd, or a smaller size");
}

// Counts and places of the parts of a vector, in elements, as MPI takes them.
struct Parts {
  std::vector<int> counts, places;
  bool even = false;

  Parts(std::size_t count, int ranks) : even(count % static_cast<std::size_t>(ranks) == 0) {
    int_count(count);
    for (int rank = 0; rank < ranks; ++rank) {
      const Chunk chunk =
          chunk_of(count, static_cast<std::size_t>(ranks), static_cast<std::size_t>(rank));
      counts.push_back(static_cast<int>(chunk.count));
      places.push_back(static_cast<int>(chunk.begin));
    }
  }
};

// One call on the group of a transport.
struct LibraryCollective {
  const CollectiveCall& call;
  MPI_Comm group;
  int rank;
  int ranks;

  std::size_t element() const { return size_bytes(call.type); }
  bool is_root() const { return rank == call.root; }

  // Calls `one(offset in bytes, count)` for parts of `bytes` that an int can count.
  template <typename One>
  void in_pieces(std::size_t bytes, const One& one) const {
    const std::size_t piece = (std::size_t{1} << 30) * element();
    for (std::size_t begin = 0; begin < bytes; begin += piece) {
      one(begin, static_cast<int>(std::min(piece, bytes - begin) / element()));
    }
  }

  void all_reduce() const {
    const MPI_Datatype type = added_type(call.type);
    in_pieces(call.out.size(), [&](std::size_t at, int count) {
      const void* const from = call.in.data() == call.out.data()
                                   ? MPI_IN_PLACE
                                   : static_cast<const void*>(call.in.data() + at);
      check(MPI_Allreduce(from, call.out.data() + at, count, type, mpi_op(call.op), group),
            "MPI_Allreduce");
    });
  }

  void reduce() const {
    const MPI_Datatype type = added_type(call.type);
    const bool in_place = is_root() && call.in.data() == call.out.data();
    in_pieces(call.in.size(), [&](std::size_t at, int count) {
      const void* const from =
          in_place ? MPI_IN_PLACE : static_cast<const void*>(call.in.data() + at);
      void* const to = is_root() ? call.out.data() + at : nullptr;
      check(MPI_Reduce(from, to, count, type, mpi_op(call.op), call.root, group), "MPI_Reduce");
    });
  }

  void broadcast() const {
    in_pieces(call.out.size(), [&](std::size_t at, int count) {
      check(MPI_Bcast(call.out.data() + at, count, moved_type(call.type), call.root, group),
            "MPI_Bcast");
    });
  }

  void all_gather() const {
    const Parts parts(call.out.size() / element(), ranks);
    const MPI_Datatype type = moved_type(call.type);
    const auto own = static_cast<std::size_t>(rank);
    const std::byte* const place =
        call.out.data() + static_cast<std::size_t>(parts.places[own]) * element();
    const void* const from =
        call.in.data() == place ? MPI_IN_PLACE : static_cast<const void*>(call.in.data());
    if (parts.even) {
      check(MPI_Allgather(from, parts.counts[own], type, call.out.data(), parts.counts[own], type,
                          group),
            "MPI_Allgather");
      return;
    }
    check(MPI_Allgatherv(from, parts.counts[own], type, call.out.data(), parts.counts.data(),
                         parts.places.data(), type, group),
          "MPI_Allgatherv");
  }

  void reduce_scatter() const {
    // In place, MPI leaves the result at the vector's begin and not where the chunk lies.
    if (call.out.data() >= call.in.data() && call.out.data() < call.in.data() + call.in.size()) {
      throw Error(ExitCode::kUsage, "NQD2102",
                  "MPI_Reduce_scatter in place does not leave the result in the chunk's place",
                  "compare out of place, or use another algorithm");
    }
    const Parts parts(call.in.size() / element(), ranks);
    check(MPI_Reduce_scatter(call.in.data(), call.out.data(), parts.counts.data(),
                             added_type(call.type), mpi_op(call.op), group),
          "MPI_Reduce_scatter");
  }

  // Only the root knows whether the parts are even, so the calls with counts serve both.
  void gather() const {
    const MPI_Datatype type = moved_type(call.type);
    const int own = int_count(call.in.size() / element());
    if (!is_root()) {
      check(
          MPI_Gatherv(call.in.data(), own, type, nullptr, nullptr, nullptr, type, call.root, group),
          "MPI_Gatherv");
      return;
    }
    const Parts parts(call.out.size() / element(), ranks);
    const std::byte* const place =
        call.out.data() +
        static_cast<std::size_t>(parts.places[static_cast<std::size_t>(rank)]) * element();
    const void* const from =
        call.in.data() == place ? MPI_IN_PLACE : static_cast<const void*>(call.in.data());
    check(MPI_Gatherv(from, own, type, call.out.data(), parts.counts.data(), parts.places.data(),
                      type, call.root, group),
          "MPI_Gatherv");
  }

  void scatter() const {
    const MPI_Datatype type = moved_type(call.type);
    const int own = int_count(call.out.size() / element());
    if (!is_root()) {
      check(MPI_Scatterv(nullptr, nullptr, nullptr, type, call.out.data(), own, type, call.root,
                         group),
            "MPI_Scatterv");
      return;
    }
    const Parts parts(call.in.size() / element(), ranks);
    const std::byte* const place =
        call.in.data() +
        static_cast<std::size_t>(parts.places[static_cast<std::size_t>(rank)]) * element();
    void* const to = call.out.data() == place ? MPI_IN_PLACE : static_cast<void*>(call.out.data());
    check(MPI_Scatterv(call.in.data(), parts.counts.data(), parts.places.data(), type, to, own,
                       type, call.root, group),
          "MPI_Scatterv");
  }

  void all_to_all() const {
    const MPI_Datatype type = moved_type(call.type);
    const Parts sent(call.in.size() / element(), ranks);
    const int own = sent.counts[static_cast<std::size_t>(rank)];
    if (sent.even) {
      check(MPI_Alltoall(call.in.data(), own, type, call.out.data(), own, type, group),
            "MPI_Alltoall");
      return;
    }
    int_count(call.out.size() / element());
    std::vector<int> counts(sent.counts.size(), own);
    std::vector<int> places;
    for (int from = 0; from < ranks; ++from) places.push_back(from * own);
    check(MPI_Alltoallv(call.in.data(), sent.counts.data(), sent.places.data(), type,
                        call.out.data(), counts.data(), places.data(), type, group),
          "MPI_Alltoallv");
  }

  void run() const {
    switch (call.collective) {
      case Collective::kAllReduce:
        return all_reduce();
      case Collective::kReduce:
        return reduce();
      case Collective::kBroadcast:
        return broadcast();
      case Collective::kAllGather:
        return all_gather();
      case Collective::kReduceScatter:
        return reduce_scatter();
      case Collective::kGather:
        return gather();
      case Collective::kScatter:
        return scatter();
      case Collective::kAllToAll:
        return all_to_all();
      case Collective::kBarrier:
      case Collective::kSendRecv:
        check(MPI_Barrier(group), "MPI_Barrier");
    }
  }
};

}  // namespace

void MpiTransport::library_collective(const CollectiveCall& call) {
  const auto guard = library_call();
  LibraryCollective{call, communicator_, rank_, size()}.run();
  const bool holds_result = call.collective == Collective::kAllReduce ||
                            call.collective == Collective::kReduceScatter ||
                            (call.collective == Collective::kReduce && rank_ == call.root);
  if (holds_result && call.op == ReduceOp::kAvg) divide_by(call.out, call.type, size());
}

void MpiTransport::library_exchange(std::span<const std::byte> data, int to,
                                    std::span<std::byte> received, int from) {
  const auto guard = library_call();
  const int sent = int_count(data.size());
  const int expected = int_count(received.size());
  if (from < 0) {
    check(MPI_Send(data.data(), sent, MPI_BYTE, to, kPointToPointTag, communicator_), "MPI_Send");
  } else if (to < 0) {
    check(MPI_Recv(received.data(), expected, MPI_BYTE, from, kPointToPointTag, communicator_,
                   MPI_STATUS_IGNORE),
          "MPI_Recv");
  } else {
    check(MPI_Sendrecv(data.data(), sent, MPI_BYTE, to, kPointToPointTag, received.data(), expected,
                       MPI_BYTE, from, kPointToPointTag, communicator_, MPI_STATUS_IGNORE),
          "MPI_Sendrecv");
  }
}

}  // namespace nqd::collectives::mpi
