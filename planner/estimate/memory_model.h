// Bytes of a rank in closed form: the same numbers that plan_memory prints by category, fast enough
// to search with.
#pragma once

#include <memory>

#include "planner/estimate/candidate.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

struct WorstStage {
  double total_bytes = 0;
  double persistent_bytes = 0;
  double allocated_bytes = 0;  // without what the allocator reserves and the device context
  double reserved_bytes = 0;   // without the device context
  std::int32_t stage = 0;
};

// Built once for a config; what a candidate does not vary is counted then. Not thread-safe (it
// remembers block sizes): one a thread. Copies share nothing.
class MemoryModel {
 public:
  explicit MemoryModel(const Config& base);
  ~MemoryModel();
  MemoryModel(MemoryModel&&) noexcept;
  MemoryModel& operator=(MemoryModel&&) noexcept;

  // The stage with the largest total. No allocation once the candidate's (tp, cp, ep,
  // micro_batch_size, recompute, sequence_parallel) has been seen.
  WorstStage worst(const Candidate& candidate);
  // Every stage by category; agrees with worst() to the last bit.
  MemoryPlan stages(const Candidate& candidate);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nqd::planner
