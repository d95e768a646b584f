// MPI_Allreduce: what users run today, as the baseline of the bench.
#include <algorithm>
#include <optional>

#include "collectives/mpi/mpi_check.h"
#include "collectives/mpi/mpi_transport.h"
#include "collectives/reduce.h"

namespace nqd::collectives::mpi {
namespace {

std::optional<MPI_Datatype> mpi_type(DType type) {
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
  return std::nullopt;
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

}  // namespace

void MpiTransport::library_all_reduce(std::span<const std::byte> in, std::span<std::byte> out,
                                      DType type, ReduceOp op) {
  const auto datatype = mpi_type(type);
  if (!datatype) {
    throw Error(ExitCode::kUsage, "NQD2102",
                "MPI_Allreduce has no " + std::string(name(type)) + " type",
                "use ring or tree, or float32");
  }
  const auto guard = library_call();
  // MPI counts are ints.
  constexpr std::size_t kMaxElements = std::size_t{1} << 30;
  const std::size_t piece_bytes = kMaxElements * size_bytes(type);
  for (std::size_t begin = 0; begin < out.size(); begin += piece_bytes) {
    const std::size_t bytes = std::min(piece_bytes, out.size() - begin);
    const void* const from =
        in.data() == out.data() ? MPI_IN_PLACE : static_cast<const void*>(in.data() + begin);
    check(MPI_Allreduce(from, out.data() + begin, static_cast<int>(bytes / size_bytes(type)),
                        *datatype, mpi_op(op), communicator_),
          "MPI_Allreduce");
  }
  if (op == ReduceOp::kAvg) divide_by(out, type, size());
}

}  // namespace nqd::collectives::mpi
