// The text table of `nqd bench COLLECTIVE`, in the columns that readers of nccl-tests know.
#pragma once

#include <cstddef>

#include "collectives/bench/bench.h"

namespace nqd::cli {

void print_header(const collectives::Communicator& world, const collectives::BenchOptions& options);
void print_row(const collectives::BenchRow& row, std::size_t element_bytes);
void print_footer(const collectives::BenchResult& result);

}  // namespace nqd::cli
