// Seeded defects for the tests that prove that audit, guards and watches can fail. Never set
// outside tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ledger.h"
#include "engine/parallel/pipeline/phase_clock.h"
#include "engine/parallel/store/unit_store.h"
#include "engine/train/mutant.h"
#include "engine/train/step_totals.h"

namespace nqd::engine {

// Batches that make a run go wrong.
struct PoisonedBatches {
  std::int64_t first = 0;  // 1-based; 0: none
  std::int64_t last = 0;
  bool by_loss = false;  // the loss is far too large; false: a gradient of every tensor is NaN
  bool holds(std::int64_t batch) const { return first > 0 && first <= batch && batch <= last; }
};

struct SeededFault {
  std::size_t extra_weights_bytes = 0;  // one more tagged buffer than planned
  std::size_t untagged_bytes = 0;       // memory that no tag knows of
  bool extra_control_sum = false;       // one more reduction than planned
  Mutant mutant = Mutant::kNone;
  // In steps [first, last] the gradients of the last rank, and of no other, are infinite.
  std::int64_t first_overflow = 0;
  std::int64_t last_overflow = 0;
  PoisonedBatches poisoned;
  int slow_rank = -1;  // sleeps so long in every pass of the phase
  Phase slow_phase = Phase::kForward;
  double slow_s = 0;
  std::int64_t hang_step = 0;  // computes for ever in this step; 0: none
  int hang_rank = -1;          // −1: all
};

// What a fault does to one rank.
class FaultOfRank {
 public:
  // `fault` must outlive it.
  FaultOfRank(const SeededFault& fault, int rank, int ranks)
      : fault_(fault), rank_(rank), ranks_(ranks) {}

  // Before the first step: buffers that nobody planned, and a phase that is slow from now on.
  void begin(MemoryLedger& ledger, PhaseClock& phases);
  // Does not return in the step that hangs.
  void hang(std::int64_t step) const;
  bool overflows(std::int64_t step) const;
  // Spoils the gradients of a step that read `batch`, or what the rank adds to its loss.
  void poison(std::int64_t batch, UnitStore& store) const;
  void poison(std::int64_t batch, RankTotals& mine) const;

 private:
  const SeededFault& fault_;
  const int rank_;
  const int ranks_;
  Buffer tagged_;
  Buffer untagged_;
};

}  // namespace nqd::engine
