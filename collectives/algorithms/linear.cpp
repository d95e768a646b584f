#include "collectives/algorithms/linear.h"

#include "collectives/algorithms/copy.h"

namespace nqd::collectives {
namespace {

template <typename Byte>
std::span<Byte> part_of(std::span<Byte> vector, const Transport& transport, int rank, DType type) {
  const std::size_t element = size_bytes(type);
  const Chunk chunk = chunk_of(vector.size() / element, static_cast<std::size_t>(transport.size()),
                               static_cast<std::size_t>(rank));
  return vector.subspan(chunk.begin * element, chunk.count * element);
}

}  // namespace

void linear_gather(Transport& transport, std::span<const std::byte> in, std::span<std::byte> out,
                   DType type, int root) {
  if (transport.rank() != root) {
    if (!in.empty()) transport.send(in, root);
    return transport.wait();
  }
  for (int rank = 0; rank < transport.size(); ++rank) {
    const auto part = part_of(out, transport, rank, type);
    if (rank == root) {
      copy(part, in);
    } else if (!part.empty()) {
      transport.receive(part, rank);
    }
  }
  transport.wait();
}

void linear_scatter(Transport& transport, std::span<const std::byte> in, std::span<std::byte> out,
                    DType type, int root) {
  if (transport.rank() != root) {
    if (!out.empty()) transport.receive(out, root);
    return transport.wait();
  }
  for (int rank = 0; rank < transport.size(); ++rank) {
    const auto part = part_of(in, transport, rank, type);
    if (rank == root) {
      copy(out, part);
    } else if (!part.empty()) {
      transport.send(part, rank);
    }
  }
  transport.wait();
}

}  // namespace nqd::collectives
