#include "planner/search/mesh_search.h"

#include <algorithm>
#include <cstddef>

namespace nqd::planner::search {

void Found::merge(const Found& other, const MeshOptions& options) {
  considered += other.considered;
  evaluated += other.evaluated;
  fitting += other.fitting;
  for (std::size_t i = 0; i < kRules; ++i) {
    rejected[i] += other.rejected[i];
    if (!examples[i]) examples[i] = other.examples[i];
  }
  const auto order = [&](const Score& a, const Score& b) {
    return better(options.objective, a, b);
  };
  const auto middle = static_cast<std::ptrdiff_t>(best.size());
  best.insert(best.end(), other.best.begin(), other.best.end());
  std::inplace_merge(best.begin(), best.begin() + middle, best.end(), order);
  if (!options.one_a_mesh && best.size() > options.keep) best.resize(options.keep);
  front.merge(other.front);
  if (other.nearest && (!nearest || better(Objective::kMemory, *other.nearest, *nearest))) {
    nearest = other.nearest;
  }
  better_than.resize(std::max(better_than.size(), other.better_than.size()));
  for (std::size_t i = 0; i < other.better_than.size(); ++i) better_than[i] += other.better_than[i];
}

MeshSearch::MeshSearch(const Space& space, const MeshOptions& options, std::span<const Score> asked,
                       MemoryModel& memory, TimeModel& time)
    : space_(space), options_(options), asked_(asked), memory_(memory), time_(time) {}

Found MeshSearch::run(const Mesh& mesh) {
  found_ = Found();
  found_.better_than.resize(asked_.size());
  found_.considered = space_.size(mesh);
  Candidate candidate;
  candidate.dp = mesh.dp;
  candidate.tp = mesh.tp;
  candidate.pp = mesh.pp;
  candidate.cp = mesh.cp;
  if (const std::optional<Rule> broken = mesh_violation(space_.facts(), candidate)) {
    reject(*broken, candidate, static_cast<std::size_t>(found_.considered));
    return std::move(found_);
  }
  replica_batch_ = space_.facts().global_batch_size / mesh.dp;
  sizes_ = space_.micro_batch_sizes(mesh);
  variants_ = space_.variants(mesh);
  sequence_parallel_ = space_.sequence_parallel(mesh);
  for (const std::int32_t ep : space_.expert_ranks()) {
    candidate.ep = ep;
    search_experts(candidate);
  }
  return std::move(found_);
}

void MeshSearch::reject(Rule rule, const Candidate& candidate, std::size_t candidates) {
  const auto i = static_cast<std::size_t>(rule);
  found_.rejected[i] += static_cast<std::int64_t>(candidates);
  if (!found_.examples[i]) found_.examples[i] = candidate;
}

void MeshSearch::search_experts(Candidate candidate) {
  const std::size_t inside = sizes_.size() * sequence_parallel_.size();
  const std::size_t below = inside * space_.recomputes().size();
  if (const auto broken = expert_violation(space_.facts(), candidate)) {
    return reject(*broken, candidate, below * variants_.size() * space_.engines().size());
  }
  for (const Engine engine : space_.engines()) {
    candidate.engine = engine;
    if (const auto broken = engine_violation(space_.facts(), candidate)) {
      reject(*broken, candidate, below * variants_.size());
      continue;
    }
    for (const Variant& variant : variants_) {
      candidate.schedule = variant.schedule;
      candidate.vpp = variant.vpp;
      if (const auto broken = schedule_violation(space_.facts(), candidate)) {
        reject(*broken, candidate, below);
        continue;
      }
      search_variant(candidate);
    }
  }
}

void MeshSearch::search_variant(Candidate candidate) {
  state_too_large_ = false;
  for (const Recompute recompute : space_.recomputes()) {
    candidate.recompute = recompute;
    if (const auto broken = recompute_violation(space_.facts(), candidate)) {
      reject(*broken, candidate, sizes_.size() * sequence_parallel_.size());
      continue;
    }
    for (const bool sequence_parallel : sequence_parallel_) {
      candidate.sequence_parallel = sequence_parallel;
      if (const auto broken = sequence_violation(space_.facts(), candidate)) {
        reject(*broken, candidate, sizes_.size());
        continue;
      }
      search_sizes(candidate);
    }
  }
}

void MeshSearch::search_sizes(Candidate candidate) {
  const double limit = options_.limit_bytes;
  bool too_large = state_too_large_;
  for (const std::int32_t size : sizes_) {
    candidate.micro_batch_size = size;
    candidate.micro_batches = static_cast<std::int32_t>(replica_batch_ / size);
    if (const auto broken = batch_violation(space_.facts(), candidate)) {
      reject(*broken, candidate, 1);
      continue;
    }
    if (too_large) {
      reject(Rule::kMemory, candidate, 1);
      continue;
    }
    ++found_.evaluated;
    const WorstStage worst = memory_.worst(candidate);
    if (limit <= 0 || worst.total_bytes <= limit) {
      keep(candidate, worst.total_bytes);
      continue;
    }
    reject(Rule::kMemory, candidate, 1);
    const Score miss{candidate, 0, worst.total_bytes};
    if (!found_.nearest || better(Objective::kMemory, miss, *found_.nearest)) found_.nearest = miss;
    // A larger micro-batch of the same plan never takes less.
    too_large = options_.prune;
    state_too_large_ = options_.prune && worst.persistent_bytes > limit;
  }
}

void MeshSearch::keep(const Candidate& candidate, double bytes) {
  const Score score{candidate, time_.step(candidate).step_s, bytes};
  ++found_.fitting;
  found_.front.add(score);
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    if (better(options_.objective, score, asked_[i])) ++found_.better_than[i];
  }
  keep_best(score);
}

void MeshSearch::keep_best(const Score& score) {
  std::vector<Score>& best = found_.best;
  const auto order = [&](const Score& a, const Score& b) {
    return better(options_.objective, a, b);
  };
  if (options_.one_a_mesh) {
    const auto same = std::find_if(best.begin(), best.end(), [&](const Score& other) {
      return other.candidate.ep == score.candidate.ep;
    });
    if (same != best.end() && order(*same, score)) return;
    if (same != best.end()) best.erase(same);
  } else if (best.size() == options_.keep) {
    if (order(best.back(), score)) return;
    best.pop_back();
  }
  best.insert(std::upper_bound(best.begin(), best.end(), score, order), score);
}

}  // namespace nqd::planner::search
