#include "collectives/algorithms/parts.h"

#include <string>

#include "base/error.h"

namespace nqd::collectives {

std::vector<Bytes> parts_in_bytes(std::span<const std::size_t> counts, DType type) {
  std::vector<Bytes> parts;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    parts.push_back(in_bytes({begin, count}, type));
    begin += count;
  }
  return parts;
}

void check_part(Collective collective, int rank, std::size_t given, std::size_t expected) {
  if (given == expected) return;
  throw Error(ExitCode::kFault, "NQD4005",
              std::string(name(collective)) + ": rank " + std::to_string(rank) +
                  " of the group gives " + std::to_string(given) + " bytes where " +
                  std::to_string(expected) + " are expected",
              "every rank must make the same call with the same count and type");
}

}  // namespace nqd::collectives
