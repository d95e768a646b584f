// Ring algorithms. Ranks form a ring; in every step each sends one chunk (types.h, chunk_of) to the
// rank on its right and receives one from its left. Bandwidth optimal, latency linear in n. Empty
// chunks are not sent. S = bytes of the full vector; wire bytes are those a rank sends.
//
// The pass that reduces moves each chunk in pieces (pieces.h) of which one is added while the next
// is on its way; a chunk counts as one message.
//
// Every element is reduced along one fixed path of ranks, once, and then copied: all ranks end with
// the same bits, on every backend.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/scratch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// Reduce-scatter, after which rank i owns chunk (i+1) mod n, then all-gather.
// Steps 2(n−1); wire bytes 2S − chunk(i+1) − chunk(i+2), which is 2(n−1)/n·S for equal chunks.
// Scratch: ring_scratch_bytes of the longest chunk. `in` and `out` are the same span or do not
// overlap.
void ring_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                     std::span<std::byte> out, DType type, ReduceOp op);

// Rank i's chunk i of `out` comes from `in` (which may be that very part of `out`).
// Steps n−1; wire bytes S − chunk(i+1). No scratch.
void ring_all_gather(Transport& transport, std::span<const std::byte> in, std::span<std::byte> out,
                     DType type);

// `out` receives chunk i of the reduction (and may be chunk i of `in`).
// Steps n−1; wire bytes S − chunk(i). Scratch: two chunks, the partial sum that leaves and the one
// that arrives.
void ring_reduce_scatter(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type, ReduceOp op);

}  // namespace nqd::collectives
