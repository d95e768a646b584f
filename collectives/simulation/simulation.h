// A collective on virtual ranks, message by message: nqd's own algorithms over a transport that
// writes down what they do, so that what is shown is what runs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "collectives/cost.h"
#include "collectives/types.h"

namespace nqd::collectives {

struct SimulatedMessage {
  std::size_t step = 0;  // 1-based
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t begin = 0;          // first element, counted in the full vector
  std::size_t contributions = 0;  // ranks whose inputs are summed in it
  std::vector<double> values;     // never empty
};

// The vectors of all ranks, by rank.
using RankVectors = std::vector<std::vector<double>>;

struct Simulation {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  std::size_t ranks = 1;
  std::size_t ranks_per_node = 1;
  std::size_t elements = 0;
  std::size_t steps = 0;
  std::vector<SimulatedMessage> messages;  // by step, then sender
  std::vector<RankVectors> values;         // before step 1, then after every step
  // Parallel to `values`: the elements of each rank that hold every input that they should.
  std::vector<std::vector<std::vector<bool>>> complete;
  std::vector<RankTraffic> sent;  // by rank, as the transport counted it, of 8-byte elements
};

struct SimulationOptions {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kAuto;
  std::size_t ranks = 1;  // 1 to kMostSimulatedRanks
  // Ranks fill nodes of so many in order, the last perhaps not; 0 for one node.
  std::size_t ranks_per_node = 0;
  std::size_t elements = 0;  // of the full vector, up to kMostSimulatedElements
  // Input of a rank; the default is rank + 1 everywhere. all_gather takes chunk_of(elements, ranks,
  // rank) from it, broadcast the vector of rank 0.
  std::function<double(std::size_t rank, std::size_t element)> input;
  ReduceOp op = ReduceOp::kSum;
};
inline constexpr std::size_t kMostSimulatedRanks = 64;
inline constexpr std::size_t kMostSimulatedElements = 1024;

// By rank.
std::vector<std::string> simulated_hosts(std::size_t ranks, std::size_t ranks_per_node);

// Runs one thread a rank. A rank does one send and one receive a step; a step is over when both
// ends have done it. Throws Error (kUsage, NQD2105) for a pair that nqd does not run (it names
// those that it does) and for barrier and send_recv.
Simulation simulate(const SimulationOptions& options);

}  // namespace nqd::collectives
