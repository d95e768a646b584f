// Seeded defects of the engine, for the tests that prove that a comparison of runs finds them.
#pragma once

#include <cstdint>

namespace nqd::engine {

// What a broken engine would do. None but those of resumed runs does anything to a single rank.
enum class Mutant : std::uint8_t {
  kNone,
  kWrongScale,         // gradients are divided by the number of ranks once too often
  kLostMicroBatch,     // the last rank's last micro-batch does not reach the sum
  kStaleShard,         // the last rank forgets to update the first tensor of its part
  kMissingSum,         // the first sum over dp (hsdp: over the shards) of every step is left out
  kMissingReplicaSum,  // hsdp: the first sum over the replicas of every step is left out
  kStaleGather,        // the first unit of a rank is never gathered again after an update
  kMissingTensorSum,   // every seventh sum over tp is left out
  kMissingNormSum,     // sequence parallelism: gradients of norms stay those of a rank's rows
  kMissingTiedSum,     // the two ends of a tied head never add up their gradients
  kSwappedStages,      // every stage has the layers of the next one
  kLateInput,          // a stage takes the activations of the micro-batch before
  // Of a run that goes on from a save:
  kLostMoments,   // the last of several ranks begins with moments of zero
  kLostPosition,  // the data is read from its beginning
  kLostSchedule,  // updates are counted from one
};

}  // namespace nqd::engine
