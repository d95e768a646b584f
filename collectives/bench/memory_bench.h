// `nqd bench memory`: what the memory of a host lets its ranks move, alone and together.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/bench/probe_rows.h"
#include "collectives/communicator.h"

namespace nqd::collectives {

struct MemoryOptions {
  std::vector<std::uint64_t> sizes;  // bytes of one vector, multiples of 64, ascending
  int iterations = 10;               // samples a row, after two calls that are not timed
};

struct MemoryResult {
  std::vector<MemoryRow> rows;
  std::vector<AllReduceLimit> limits;  // empty for one rank, or several hosts
};

// Collective. Every rank gets the result; `on_row` is called on rank 0. Every rank in turn runs
// alone while the others wait, then all run together. A rank holds three vectors of the largest
// size.
MemoryResult run_memory_bench(Communicator& world, const MemoryOptions& options,
                              const std::function<void(const MemoryRow&)>& on_row = {});

// The limits that the rows of all ranks together give for `ranks` ranks.
std::vector<AllReduceLimit> all_reduce_limits(const std::vector<MemoryRow>& rows, int ranks);

}  // namespace nqd::collectives
