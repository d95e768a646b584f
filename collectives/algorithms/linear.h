// Algorithms in which the root exchanges with every other rank, all at once. Parts are those of
// chunk_of (types.h); empty ones are not sent.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/transport.h"

namespace nqd::collectives {

// `in` is this rank's part; `out`, the full vector, counts on the root alone, and may hold `in` in
// its place. Wire bytes: this rank's part, none from the root.
void linear_gather(Transport& transport, std::span<const std::byte> in, std::span<std::byte> out,
                   DType type, int root);

// `in`, the full vector, counts on the root alone; `out` receives this rank's part, and may lie in
// its place of `in`. Wire bytes: all parts but the root's, from the root.
void linear_scatter(Transport& transport, std::span<const std::byte> in, std::span<std::byte> out,
                    DType type, int root);

}  // namespace nqd::collectives
