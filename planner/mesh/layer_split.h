// The layers of a pipeline's virtual stages where the config does not spell them out.
#pragma once

#include <cstdint>

namespace nqd::planner {

// Layers of chunk `chunk` of `chunks` = pp·vpp. With a remainder the chunks at either end, which
// hold the embedding and the head as well, have one fewer: 126 layers on 16 stages are 7, 14 · 8, 7
// as in The Llama 3 Herd of Models, section 3.3.2.
constexpr std::int64_t layers_of_chunk(std::int64_t layers, std::int64_t chunks,
                                       std::int64_t chunk) noexcept {
  const std::int64_t fewest = layers / chunks;
  const std::int64_t more = layers % chunks;
  if (more == 0) return fewest;
  const std::int64_t fewer = chunks - more;
  const bool at_an_end = chunk < fewer / 2 || chunk >= chunks - (fewer + 1) / 2;
  return at_an_end ? fewest : fewest + 1;
}

}  // namespace nqd::planner
