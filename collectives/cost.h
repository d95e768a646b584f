// What a collective costs: exact messages and bytes of each rank, and the α–β–γ time model. For the
// pairs that nqd runs (collectives/algorithms/) a test counts real traffic against these; the other
// algorithms can be priced and not run. Vendor-free; the planner uses this file.
//
// Formulas: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
// MPICH" (2005), for ring, binomial tree, recursive doubling, halving-doubling, pairwise and Bruck;
// Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"
// (2009), for the double binary tree in the form that NCCL builds; the NCCL source for NVLS and for
// the protocols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "collectives/types.h"

namespace nqd::collectives {

struct RankTraffic {
  std::uint64_t messages = 0;    // sent by this rank
  std::uint64_t bytes_sent = 0;  // payload bytes sent by this rank
};

// The algorithm that nqd runs: kAuto resolved, others as they are (kAuto stays for barrier and
// send_recv, which have one algorithm each). Throws Error (kUsage, NQD2102) for a pair that it
// cannot run.
Algorithm resolve(Collective collective, Algorithm algorithm);

// Whether nqd runs this pair itself (a library's own collective apart).
bool is_executable(Collective collective, Algorithm algorithm) noexcept;

// Whether the pair has a price on `ranks` ranks:
//   all_reduce       ring, tree, double_binary_tree, recursive_doubling, halving_doubling,
//                    hierarchical, nvls, pairwise, direct
//   all_gather       ring, halving_doubling (its doubling half), hierarchical, nvls, bruck, direct
//   reduce_scatter   ring, halving_doubling (its halving half), hierarchical, nvls, pairwise,
//                    direct
//   broadcast        tree, ring (pipelined chain), nvls, direct
//   reduce           tree, ring (pipelined chain), nvls, direct
//   all_to_all       pairwise, bruck, hierarchical, direct
//   gather, scatter  linear, direct
//   barrier, send_recv   one algorithm each, called auto
// kAuto is ring, for broadcast and reduce the tree, for all_to_all pairwise, for gather and scatter
// linear. One half of
// halving_doubling alone needs a power of two; hierarchical needs `ranks_per_node` to divide
// `ranks`.
bool has_cost(Collective collective, Algorithm algorithm, std::size_t ranks,
              std::size_t ranks_per_node = 1) noexcept;
// kAuto as what it means there, others as they are; nothing for a pair that is not listed.
std::optional<Algorithm> known_algorithm(Collective collective, Algorithm algorithm) noexcept;

// What `rank` of `ranks` sends in one call. `count` elements of `element_bytes` is the full vector:
// the all_reduce/broadcast/reduce vector, the gathered all_gather output, the reduce_scatter input,
// what one rank gives to an all_to_all; its parts are those of chunk_of(count, ranks, i), whatever
// their lengths. Messages of zero elements are not sent and not counted; a vector that is pipelined
// in pieces counts as one message. Rank 0 is the root. S = bytes of the vector, n = ranks,
// m = the largest power of two <= n, chunk(i) = bytes of part i.
//   ring all_reduce         every chunk but (i+1) mod n, then every chunk but (i+2) mod n
//   ring all_gather         every chunk but (i+1) mod n; reduce_scatter: every chunk but i
//   ring broadcast, reduce  S, but not the end of the chain
//   tree broadcast          S to each child in the binomial tree; reduce: S to the parent
//   tree all_reduce         S to the parent (not the root), then to each child
//   double_binary_tree      each half of S up and down its tree; a rank is inner in one tree only
//                           (for even n), so that most send 2S
//   recursive_doubling      S·log2 m. When n > m the first n − m pairs fold: the even rank sends S
//                           and the odd one S more, to hand back the result
//   halving_doubling        S − chunk(i), then i's growing block, for m ranks; folded as above; in
//                           all_reduce i is the place among the m with its bits reversed, since the
//                           nearest partners exchange first
//   hierarchical all_reduce inside the node every part to its owner; across nodes every chunk of
//                           the part to its owner, then a ring of them; inside, the part to all;
//                           node = rank / ranks_per_node (other placements: host_map.h)
//   hierarchical all_gather the own chunk to each of the other nodes, then all chunks of that place
//                           to each rank of the node; reduce_scatter: the same way back
//   hierarchical all_to_all inside the node to the rank of the same place as the target, then
//                           across nodes between ranks of one place
//   nvls                    all_reduce: S to the switch, which adds, and chunk(i) to be multicast;
//                           all_gather: chunk(i); reduce_scatter and reduce: S; broadcast: the
//                           root's S. The switch multiplies: what is received differs from this
//   direct                  of memory, not of messages: what a rank reads from its peers and what
//                           it gives them. all_reduce 2(n−1) times its part (line_chunk_of),
//                           reduce_scatter and all_to_all (n−1) times its chunk, all_gather (and
//                           gather at the root) S − chunk(i), broadcast S and scatter chunk(i) for
//                           all but the root; reduce (n−1) times its part, once more to give it to
//                           the root; all_reduce and reduce_scatter up to kDirectSmallBytes (n−1)·S
//   linear                  gather: chunk(i) to the root; scatter: the root sends all but its own
//   pairwise                every chunk but i; all_reduce: then every chunk but (i+1) mod n, around
//                           the ring
//   bruck all_to_all        in step k what still has to travel a distance with bit k set
//   bruck all_gather        in step k the min(2^k, n − 2^k) chunks from i on
//   barrier                 ⌈log2 n⌉ empty messages
//   send_recv               the sender's one message
// Throws Error (kUsage, NQD2102) for a pair that has no price.
RankTraffic rank_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                         std::size_t rank, std::size_t count, std::size_t element_bytes,
                         std::size_t ranks_per_node = 1);

// Bytes of the receive buffer that a ring all_reduce of `count` elements keeps: the longest chunk,
// or two pieces of it where it travels in several (algorithms/pieces.h). 0 for one rank.
std::size_t ring_all_reduce_scratch(std::size_t ranks, std::size_t count,
                                    std::size_t element_bytes);

// The same for a direct all_reduce in place in SharedBuffers: only a small vector has its result
// built elsewhere.
std::size_t direct_all_reduce_scratch(std::size_t ranks, std::size_t count,
                                      std::size_t element_bytes);

// The maximum of rank_traffic over ranks.
RankTraffic max_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                        std::size_t count, std::size_t element_bytes,
                        std::size_t ranks_per_node = 1);

// Steps on the critical path (message latencies that follow one another).
// ring all_reduce 2(n−1); ring all_gather, reduce_scatter n−1; binomial tree broadcast ⌈log2 n⌉;
// tree all_reduce (reduce, then broadcast) 2⌈log2 n⌉; the others as cost_terms says.
std::uint64_t steps(Collective collective, Algorithm algorithm, std::size_t ranks,
                    std::size_t ranks_per_node = 1);

// α seconds a message, β seconds a byte of one link, γ seconds to reduce a received byte (0 where
// reduction keeps pace with the link).
struct Link {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
  double gamma_s_per_byte = 0;
};

// Time of one call of S bytes = steps·α + S·(sent·β + reduced·γ): every algorithm is a line over S.
struct CostTerms {
  double steps = 0;    // latencies that follow one another
  double sent = 0;     // bytes that follow one another on a link, as a multiple of S
  double reduced = 0;  // bytes that follow one another through the reduction, likewise
};
constexpr double time_s(const CostTerms& terms, double bytes, const Link& link) noexcept {
  return terms.steps * link.alpha_s +
         bytes * (terms.sent * link.beta_s_per_byte + terms.reduced * link.gamma_s_per_byte);
}

// The two levels of one call: `inside` a node and `across` nodes. Only hierarchical has the second.
struct LevelTerms {
  CostTerms inside;
  CostTerms across;
};

// n ranks in k = n/g nodes of g; m the largest power of two <= n; f = 1 when n > m, else 0.
//                                steps           sent             reduced
//   ring all_reduce              2(n−1)          2(n−1)/n         (n−1)/n
//   ring all_gather              n−1             (n−1)/n          0  (reduce_scatter: (n−1)/n)
//   ring broadcast               n−1             1                0  (reduce: 1)
//   tree all_reduce              2⌈log2 n⌉       2⌈log2 n⌉        ⌈log2 n⌉
//   tree broadcast               ⌈log2 n⌉        ⌈log2 n⌉         0  (reduce: ⌈log2 n⌉)
//   double_binary_tree           2⌈log2 n⌉       2 (n = 3: 3/2, n = 2: 1)   1 (n = 2: 1/2)
//   recursive_doubling           log2 m + 2f     log2 m + 2f      log2 m + f
//   halving_doubling all_reduce  2 log2 m + 2f   2(m−1)/m + 2f    (m−1)/m + f
//   halving_doubling, one half   log2 n          (n−1)/n          0  (reduce_scatter: (n−1)/n)
//   hierarchical all_reduce      inside 2(g−1), 2(g−1)/g, (g−1)/g; across the ring of k on S/g
//   hierarchical all_gather      inside g−1, (g−1)/g; across k−1, (k−1)/k/g; reduce_scatter as it
//   hierarchical all_to_all      inside g−1, (g−1)/g; across k−1, (k−1)/k
//   nvls all_reduce              2, 1 + 1/n, 0; the others 1, 1, 0 (the larger of what a rank sends
//                                and receives)
//   direct                       as ring, with 2 steps: one wait for all before and one after
//   linear                       1, (n−1)/n, 0: what the root sends or receives
//   pairwise                     n−1, (n−1)/n, all_to_all 0, reduce_scatter (n−1)/n; all_reduce as
//                                ring
//   bruck all_to_all             ⌈log2 n⌉, Σ popcount(j)/n over j < n, 0
//   bruck all_gather             ⌈log2 n⌉, (n−1)/n, 0
// Pipelined forms (double tree, chains) are those of pieces so small that filling the pipeline
// costs latency alone. Zeros for one rank and for a pair without has_cost().
LevelTerms cost_terms(Collective collective, Algorithm algorithm, std::size_t ranks,
                      std::size_t ranks_per_node = 1) noexcept;

// Time of one call where every level has the same link. 0 for one rank. Throws as steps() does.
double time_s(Collective collective, Algorithm algorithm, std::size_t ranks, double bytes,
              const Link& link, std::size_t ranks_per_node = 1);

// How a library puts payload on the wire, after NCCL: Simple sends it as it is; LL pairs each 4
// bytes with a 4-byte flag; LL128 sends 120 of 128 bytes.
enum class Protocol : std::uint8_t { kSimple, kLL, kLL128 };
std::string_view name(Protocol protocol);  // "simple", "ll", "ll128"
// Share of the link's bytes that is payload: 1, 1/2, 120/128.
double payload_share(Protocol protocol) noexcept;
// The link as payload sees it: β divided by that share.
Link with_protocol(const Link& link, Protocol protocol) noexcept;

// busbw = algbw × this: all_reduce 2(n−1)/n; all_gather, reduce_scatter, all_to_all (n−1)/n;
// else 1.
double bus_factor(Collective collective, std::size_t ranks);

}  // namespace nqd::collectives
