// What a collective costs: exact messages and bytes of each rank for the algorithms in
// collectives/algorithms/ (a test counts real traffic against these), and the α–β time model.
// Vendor-free; the planner uses this file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/types.h"

namespace nqd::collectives {

struct RankTraffic {
  std::uint64_t messages = 0;    // sent by this rank
  std::uint64_t bytes_sent = 0;  // payload bytes sent by this rank
};

// The algorithm that runs: kAuto resolved, others as they are (kAuto stays for barrier and
// send_recv, which have one algorithm each). Throws Error (kUsage, NQD2102) for a pair that has no
// algorithm.
Algorithm resolve(Collective collective, Algorithm algorithm);

// What `rank` of `ranks` sends in one call. `count` elements of `element_bytes` is the full vector:
// the all_reduce/broadcast vector, the gathered all_gather output, the reduce_scatter input.
// Messages of zero elements are not sent and not counted. Tree algorithms use root 0. kAuto is ring
// for all_reduce, all_gather and reduce_scatter, the tree for broadcast.
//   ring all_reduce       rank i sends every chunk but (i+1) mod n, then every chunk but (i+2) mod
//   n ring all_gather       every chunk but (i+1) mod n ring reduce_scatter   every chunk but i
//   tree broadcast        the vector to each of its children in the binomial tree
//   tree all_reduce       the vector to its parent (not the root), then to each child
//   barrier               ⌈log2 n⌉ empty messages
//   send_recv             the sender's one message
// Throws Error (kUsage, NQD2102) for a pair that has no algorithm.
RankTraffic rank_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                         std::size_t rank, std::size_t count, std::size_t element_bytes);

// The maximum over ranks of the above.
RankTraffic max_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                        std::size_t count, std::size_t element_bytes);

// Steps on the critical path (message latencies that follow one another).
// ring all_reduce 2(n−1); ring all_gather, reduce_scatter n−1; binomial tree broadcast ⌈log2 n⌉;
// tree all_reduce (reduce, then broadcast) 2⌈log2 n⌉.
std::uint64_t steps(Collective collective, Algorithm algorithm, std::size_t ranks);

// α seconds a message and β seconds a byte of one link.
struct Link {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

// Time of one call under α–β: steps·α + (bytes on the critical path)·β, payload `bytes` in all.
// ring all_reduce: 2(n−1)α + 2(n−1)/n·S·β; tree all_reduce: 2⌈log2 n⌉(α + S·β). 0 for one rank.
double time_s(Collective collective, Algorithm algorithm, std::size_t ranks, double bytes,
              const Link& link);

// busbw = algbw × this: all_reduce 2(n−1)/n; all_gather, reduce_scatter (n−1)/n; else 1.
double bus_factor(Collective collective, std::size_t ranks);

}  // namespace nqd::collectives
