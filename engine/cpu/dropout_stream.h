// The random words of one tensor's dropout, as engine/cpu/dropout.h defines them, for the kernels
// of every device.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/cpu/dropout.h"
#include "engine/philox.h"

namespace nqd::engine::cpu {

inline constexpr std::uint32_t kKeyOfDropout =
    0x64726F70;  // keeps its streams apart from initialisation's

struct DropoutStream {
  PhiloxKey key{};
  std::uint32_t step = 0;
  std::uint32_t place = 0;
  std::uint64_t threshold = 0;  // a word is kept from here on
  double kept = 1;              // the factor of what is kept
  const std::uint32_t* step_at = nullptr;

  // That of the step that is at step_at.
  constexpr DropoutStream now() const {
    DropoutStream stream = *this;
    if (step_at != nullptr) stream.step = *step_at;
    return stream;
  }
  // The four words of one Philox block.
  constexpr PhiloxCounter words(std::uint64_t block) const {
    return philox4x32_10(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), step, place},
        key);
  }
};

inline DropoutStream stream_of(const Dropout& dropout) {
  return {.key = {static_cast<std::uint32_t>(dropout.seed),
                  static_cast<std::uint32_t>(dropout.seed >> 32) ^ kKeyOfDropout},
          .step = static_cast<std::uint32_t>(dropout.step),
          .place = static_cast<std::uint32_t>(dropout.layer * 256) +
                   static_cast<std::uint32_t>(dropout.site),
          .threshold = static_cast<std::uint64_t>(std::ceil(dropout.rate * 0x1p32)),
          .kept = 1.0 / (1.0 - dropout.rate),
          .step_at = dropout.step_at};
}

}  // namespace nqd::engine::cpu
