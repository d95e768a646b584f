// One collective as the sweep sees it: its buffers for one size, the call, and the check.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ledger.h"
#include "collectives/bench/bench.h"
#include "collectives/bench/device.h"
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
  // `max_bytes` is the largest full vector. With a device the vectors are there, and calls run
  // there; those of the host are what they are filled and compared with.
  Operation(Communicator& world, const BenchOptions& options, std::size_t max_bytes,
            BenchDevice* device = nullptr);

  // The full vector of the next calls: `bytes` bytes, a whole number of elements.
  void resize(std::size_t bytes);
  // Every copy of the vectors; the next call takes the first.
  void fill();
  // On the next copy.
  void call(Algorithm algorithm);
  // Seconds of each of so many calls on the device, on one copy after the other.
  std::vector<double> time(std::size_t calls);
  // What the device's library expects of a call.
  std::optional<double> estimate_s();
  // Wrong elements of this rank in what the last call left, the first since fill().
  std::uint64_t count_wrong();
  // Copies of the vectors that calls take in turn: 1, but for a cold sweep.
  std::size_t copies() const { return copies_; }

 private:
  // Where a part of the full vector begins, in elements, and its length.
  struct Part {
    std::size_t first = 0;
    std::size_t bytes = 0;
  };
  // Bytes from one copy to the next for a vector of `bytes`.
  std::size_t stride(std::size_t bytes) const;
  Part part(std::size_t rank) const;
  // Of a gathered vector, and of what an all_to_all received.
  std::uint64_t count_wrong_parts(std::span<const std::byte> result) const;
  std::uint64_t count_wrong_rows(std::span<const std::byte> result) const;
  Part in_part() const;
  Part out_part() const;
  std::span<std::byte> in();
  std::span<std::byte> out();
  void exchange(Algorithm algorithm);
  void take_next_copy();
  // The call as the device runs it.
  BenchSteps steps();
  std::span<std::byte> on_device(std::span<std::byte> data);
  // Whom a message of kSendRecv goes to and comes from; -1 for a rank that has no part in it.
  int right() const;
  int left() const;

  Communicator& world_;
  BenchDevice* const device_;
  const Collective collective_;
  const DType type_;
  const ReduceOp op_;
  const bool in_place_;
  const int root_;
  const std::optional<std::array<int, 2>> pair_;
  const std::size_t cold_bytes_;  // that the copies must exceed; 0 when warm
  const Pattern pattern_;
  std::size_t bytes_ = 0;
  std::size_t copies_ = 1;
  std::size_t next_copy_ = 0;
  std::size_t offset_ = 0;  // of the copy in use
  // Input is in full_, output in second_, or both in full_ in place. A shard lies where its chunk
  // of the full vector would.
  Block full_;
  Block second_;
};

}  // namespace nqd::collectives
