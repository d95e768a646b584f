#include "planner/estimate/candidate.h"

namespace nqd::planner {

Candidate candidate_of(const Config& config) {
  const ParallelSpec& parallel = config.parallel;
  const TrainSpec& train = config.train;
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  Candidate candidate;
  candidate.dp = narrow(parallel.dp);
  candidate.tp = narrow(parallel.tp);
  candidate.pp = narrow(parallel.pp);
  candidate.cp = narrow(parallel.cp);
  candidate.ep = narrow(parallel.ep);
  candidate.vpp = narrow(parallel.vpp);
  candidate.micro_batch_size = narrow(train.micro_batch_size);
  candidate.micro_batches = narrow(config.micro_batches());
  candidate.engine = parallel.engine;
  candidate.schedule = parallel.schedule;
  candidate.recompute = train.recompute;
  candidate.sequence_parallel = parallel.sequence_parallel;
  return candidate;
}

Config with_candidate(const Config& base, const Candidate& candidate) {
  Config config = base;
  ParallelSpec& parallel = config.parallel;
  if (candidate.pp != parallel.pp || candidate.vpp != parallel.vpp) {
    parallel.pipeline_split.clear();
  }
  parallel.dp = candidate.dp;
  parallel.tp = candidate.tp;
  parallel.pp = candidate.pp;
  parallel.cp = candidate.cp;
  parallel.ep = candidate.ep;
  parallel.vpp = candidate.vpp;
  parallel.engine = candidate.engine;
  parallel.schedule = candidate.schedule;
  parallel.sequence_parallel = candidate.sequence_parallel;
  parallel.world_size = parallel.ranks();
  config.train.micro_batch_size = candidate.micro_batch_size;
  config.train.global_batch_size =
      std::int64_t{candidate.micro_batch_size} * candidate.micro_batches * candidate.dp;
  config.train.recompute = candidate.recompute;
  return config;
}

}  // namespace nqd::planner
