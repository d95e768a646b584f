// One point of the space that a search walks: everything of a Config that it varies.
#pragma once

#include <cstdint>

#include "planner/spec.h"

namespace nqd::planner {

struct Candidate {
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t pp = 1;
  std::int32_t cp = 1;
  std::int32_t ep = 1;
  std::int32_t vpp = 1;
  std::int32_t micro_batch_size = 1;
  std::int32_t micro_batches = 1;  // m of global_batch_size = micro_batch_size · m · dp
  Engine engine = Engine::kDdp;
  Schedule schedule = Schedule::k1F1B;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

Candidate candidate_of(const Config& config);
// `base` with the candidate's mesh and choices; world_size follows. An explicit pipeline_split is
// kept only while pp and vpp are those of `base`.
Config with_candidate(const Config& base, const Candidate& candidate);

}  // namespace nqd::planner
