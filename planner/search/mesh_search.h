// Everything that one mesh can be made of, evaluated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/estimate/memory_model.h"
#include "planner/estimate/time_model.h"
#include "planner/search/score.h"
#include "planner/search/space.h"

namespace nqd::planner::search {

struct MeshOptions {
  Objective objective = Objective::kStepTime;
  double limit_bytes = 0;  // 0 = unknown: everything fits
  // Plans kept: the best of each dp·tp·pp·cp·ep, or the best `keep` of all kinds.
  bool one_a_mesh = true;
  std::size_t keep = 10;
  // Leave out what is known not to fit without counting its bytes. The result is the same.
  bool prune = true;
};

// What is known of some meshes; sums and bests, so that it can be merged.
struct Found {
  std::int64_t considered = 0;
  std::int64_t evaluated = 0;  // bytes and, where they fit, seconds
  std::int64_t fitting = 0;
  RuleCounts rejected = {};
  std::array<std::optional<Candidate>, kRules> examples;  // the first of each that was rejected
  std::vector<Score> best;                                // in order; see MeshOptions
  ParetoFront front;
  // The fewest bytes of what does not fit. With pruning not the fewest of all.
  std::optional<Score> nearest;
  // For each asked plan, how many are better.
  std::vector<std::int64_t> better_than;

  void merge(const Found& other, const MeshOptions& options);
};

class MeshSearch {
 public:
  // The references live as long as this.
  MeshSearch(const Space& space, const MeshOptions& options, std::span<const Score> asked,
             MemoryModel& memory, TimeModel& time);

  Found run(const Mesh& mesh);

 private:
  // What is left of a prefix when a rule ends it.
  void reject(Rule rule, const Candidate& candidate, std::size_t candidates);
  void search_experts(Candidate candidate);
  void search_variant(Candidate candidate);
  void search_sizes(Candidate candidate);
  void keep(const Candidate& candidate, double bytes);
  void keep_best(const Score& score);

  const Space& space_;
  const MeshOptions& options_;
  std::span<const Score> asked_;
  MemoryModel& memory_;
  TimeModel& time_;
  Found found_;
  // Of the engine and schedule at hand even the state, which nothing inside them changes, is too
  // large.
  bool state_too_large_ = false;
  std::int64_t replica_batch_ = 1;  // sequences of one dp rank a step
  // Axes inside the mesh.
  std::vector<std::int32_t> sizes_;
  std::vector<Variant> variants_;
  std::vector<bool> sequence_parallel_;
};

}  // namespace nqd::planner::search
