// How plans are compared: by objective, with ties broken the same way everywhere, and by dominance.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/estimate/candidate.h"

namespace nqd::planner::search {

enum class Objective : std::uint8_t { kStepTime, kMemory, kCost, kGpus };
std::string_view name(Objective objective);  // "step_time", "memory", "cost", "gpus"
// Nothing for another text.
std::optional<Objective> parse_objective(std::string_view text);

// What a search keeps of a plan that fits.
struct Score {
  Candidate candidate;
  double step_s = 0;  // 0: the cluster's rates are unknown
  double bytes = 0;   // of the worst rank
  std::int64_t gpus() const {
    return static_cast<std::int64_t>(candidate.dp) * candidate.tp * candidate.pp * candidate.cp;
  }
};

// Ties of everything that is measured: fewer tp, pp, cp, ep, virtual stages; then the simpler
// engine, less recomputation, no sequence parallelism, the simpler schedule, the smaller
// micro-batch.
bool simpler(const Candidate& a, const Candidate& b);

// Total order, best first. cost is the product of GPUs and step time (the price a GPU hour is the
// same for all). After the objective come step time, bytes, GPUs, then `simpler`.
bool better(Objective objective, const Score& a, const Score& b);

// Plans that no other beats in one of step time, bytes and GPUs without losing in another; of equal
// ones the simpler.
class ParetoFront {
 public:
  void add(const Score& score);
  void merge(const ParetoFront& other);
  // By step time.
  std::vector<Score> sorted() const;

 private:
  // Plans of one number of GPUs, bytes falling as step time rises.
  struct Stairs {
    std::int64_t gpus = 0;
    std::vector<Score> steps;
    void add(const Score& score);
  };
  Stairs& of(std::int64_t gpus);
  std::vector<Stairs> stairs_;
};

}  // namespace nqd::planner::search
