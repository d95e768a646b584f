// Two levels: the ranks of a host work together first, so that the network carries as little as it
// can. S = bytes of the full vector, k = hosts, h = ranks of this rank's host, g = ranks of the
// host that has fewest (host_map.h, shared_places), which may lie anywhere in the group.
//
// The vector has g parts (types.h, chunk_of). The rank of place j < g on each host owns part j
// there; a host with more ranks has some that own nothing, and a host of one rank makes g = 1: one
// leader a host. Inside a host ranks touch each other's memory (shared/peer_memory.h) where they
// can and exchange messages where they cannot; both are counted alike.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/scratch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// Inside, every owner reduces its part of the host's h vectors; across, the k owners of one part
// reduce it (pairwise reduce_scatter, then ring all_gather); inside, all read the parts of the
// owners. Steps 2(h−1) inside and 2(k−1) across. A host sends 2(k−1)/k·S to others, whatever the
// order of ranks: a ring that enters each host once sends 2(n−1)/n·S, one that alternates between
// hosts h times that. Bytes of a rank: host_map.h, rank_traffic.
//
// Sums are canonical (reduce_tree.h) in the order (host, place): with the bits of the canonical sum
// over all ranks when these fill equal hosts of a power of two of ranks one after the other, and
// always the same bits on all ranks. Half-width floats are rounded once a level.
// Scratch: what is pulled or received inside, then k chunks of part/k. `in` and `out` are the same
// span or do not overlap.
void hierarchical_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                             std::span<std::byte> out, DType type, ReduceOp op);

// In the next two the vector has a chunk for every rank, and the owner of place j works for the
// ranks of places j, j + g, j + 2g, … of its host: its set. Chunks of a set travel as one message.
//
// Owners collect the chunks of their set, exchange sets with the owners of their place on other
// hosts (pairwise), and give all that they hold to the others of their host. Steps k−1 across, h−1
// inside. A host receives what others have, once: a ring brings (n−1)/n·S over each cable. `in` may
// be its chunk of `out`. Scratch, for messages: two sets of all hosts.
void hierarchical_all_gather(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                             std::span<std::byte> out, DType type);

// The way back: owners reduce the sets of all hosts over the ranks of theirs, send each host its
// own set, reduce what they get, and hand it over. Canonical as above. `out` may be its chunk of
// `in`. Scratch: a set of all hosts and k sets of one; for messages h + 1 more.
void hierarchical_reduce_scatter(Transport& transport, Scratch& scratch,
                                 std::span<const std::byte> in, std::span<std::byte> out,
                                 DType type, ReduceOp op);

}  // namespace nqd::collectives
