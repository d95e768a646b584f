#include "engine/train/seeded_fault.h"

#include <chrono>
#include <limits>
#include <thread>

namespace nqd::engine {

void FaultOfRank::begin(MemoryLedger& ledger, PhaseClock& phases) {
  if (fault_.extra_weights_bytes > 0) {
    tagged_ = Buffer(&ledger, MemoryTag::kWeights, fault_.extra_weights_bytes);
  }
  if (fault_.untagged_bytes > 0) {
    untagged_ = Buffer(nullptr, MemoryTag::kWorkspace, fault_.untagged_bytes);
  }
  if (fault_.slow_rank == rank_) phases.slow_for_test(fault_.slow_phase, fault_.slow_s);
}

void FaultOfRank::hang(std::int64_t step) const {
  if (step != fault_.hang_step) return;
  while (fault_.hang_rank < 0 || fault_.hang_rank == rank_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool FaultOfRank::overflows(std::int64_t step) const {
  return rank_ + 1 == ranks_ && fault_.first_overflow <= step && step <= fault_.last_overflow;
}

void FaultOfRank::poison(std::int64_t batch, RankTotals& mine) const {
  constexpr double kLoss = 1e6;  // of a step, far above any
  if (!fault_.poisoned.holds(batch) || !fault_.poisoned.by_loss) return;
  if (mine.targets > 0) mine.loss.add(kLoss);
}

void FaultOfRank::poison(std::int64_t batch, UnitStore& store) const {
  if (!fault_.poisoned.holds(batch) || fault_.poisoned.by_loss) return;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  store.for_each_shard(
      [&](const ShardRun& run) { store.device().upload(run.gradient.data(), &kNan, sizeof kNan); });
}

}  // namespace nqd::engine
