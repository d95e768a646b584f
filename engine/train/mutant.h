// Seeded defects of the engine, for the tests that prove that a comparison of runs finds them.
#pragma once

#include <cstdint>

namespace nqd::engine {

// What a broken engine would do.
enum class Mutant : std::uint8_t {
  kNone,
  kWrongScale,        // gradients are divided by the number of ranks once too often
  kLostMicroBatch,    // the last rank's last micro-batch does not reach the sum
  kStaleShard,        // the last rank forgets to update the first tensor of its part
  kSwappedLayers,     // the first layer stands in place of the last
  kMissingSum,        // the first sum over dp of every step is left out
  kMissingTensorSum,  // every seventh sum over tp is left out
  kMissingTiedSum,    // the two ends of a tied head never add up their gradients
};

}  // namespace nqd::engine
