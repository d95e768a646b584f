// One collective as the sweep sees it: its buffers for one size, the call, and the check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ledger.h"
#include "collectives/bench/bench.h"
#include "collectives/bench/pattern.h"
#include "collectives/communicator.h"
#include "collectives/shared/shared_buffer.h"

namespace nqd::collectives {

// A vector in private memory or in a shared buffer.
class Block {
 public:
  Block() = default;
  Block(std::size_t bytes, bool registered);
  std::span<std::byte> bytes();
  std::span<const std::byte> bytes() const;

 private:
  Buffer private_;
  SharedBuffer shared_;
};

class Operation {
 public:
  // `max_bytes` is the largest full vector.
  Operation(Communicator& world, const BenchOptions& options, std::size_t max_bytes);

  // The full vector of the next calls: `bytes` bytes, a whole number of elements.
  void resize(std::size_t bytes) { bytes_ = bytes; }
  void fill();
  void call(Algorithm algorithm);
  // Wrong elements of this rank after one call on filled buffers.
  std::uint64_t count_wrong() const;

 private:
  // Where a part of the full vector begins, in elements, and its length.
  struct Part {
    std::size_t first = 0;
    std::size_t bytes = 0;
  };
  static constexpr int kRoot = 0;
  Part part(std::size_t rank) const;
  // Of a gathered vector, and of what an all_to_all received.
  std::uint64_t count_wrong_parts(std::span<const std::byte> result) const;
  std::uint64_t count_wrong_rows(std::span<const std::byte> result) const;
  Part in_part() const;
  Part out_part() const;
  std::span<std::byte> in();
  std::span<std::byte> out();

  Communicator& world_;
  const Collective collective_;
  const DType type_;
  const ReduceOp op_;
  const bool in_place_;
  const Pattern pattern_;
  std::size_t bytes_ = 0;
  // Input is in full_, output in second_, or both in full_ in place. A shard lies where its chunk
  // of the full vector would.
  Block full_;
  Block second_;
};

}  // namespace nqd::collectives
