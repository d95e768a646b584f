#include "planner/search/score.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

namespace nqd::planner::search {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"step_time", "memory", "cost", "gpus"};

double objective_value(Objective objective, const Score& score) {
  switch (objective) {
    case Objective::kStepTime:
      return score.step_s;
    case Objective::kMemory:
      return score.bytes;
    case Objective::kCost:
      return score.step_s * static_cast<double>(score.gpus());
    case Objective::kGpus:
      return static_cast<double>(score.gpus());
  }
  return 0;
}

auto simplicity(const Candidate& c) {
  return std::tuple(c.tp, c.pp, c.cp, c.ep, c.vpp, c.engine, c.recompute, c.sequence_parallel,
                    c.schedule, c.micro_batch_size, c.dp);
}

// By step time, then bytes, then simplicity: the order of a front's stairs.
bool earlier(const Score& a, const Score& b) {
  if (a.step_s != b.step_s) return a.step_s < b.step_s;
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  return simpler(a.candidate, b.candidate);
}

}  // namespace

std::string_view name(Objective objective) { return kNames[static_cast<std::size_t>(objective)]; }

std::optional<Objective> parse_objective(std::string_view text) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Objective>(found - kNames.begin());
}

bool simpler(const Candidate& a, const Candidate& b) { return simplicity(a) < simplicity(b); }

bool better(Objective objective, const Score& a, const Score& b) {
  const double value_a = objective_value(objective, a);
  const double value_b = objective_value(objective, b);
  if (value_a != value_b) return value_a < value_b;
  if (a.step_s != b.step_s) return a.step_s < b.step_s;
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  if (a.gpus() != b.gpus()) return a.gpus() < b.gpus();
  return simpler(a.candidate, b.candidate);
}

void ParetoFront::Stairs::add(const Score& score) {
  auto at = std::lower_bound(steps.begin(), steps.end(), score, earlier);
  if (at != steps.begin() && std::prev(at)->bytes <= score.bytes) return;
  auto last = at;
  while (last != steps.end() && last->bytes >= score.bytes) ++last;
  if (at == last) {
    steps.insert(at, score);
  } else {
    *at = score;
    steps.erase(at + 1, last);
  }
}

ParetoFront::Stairs& ParetoFront::of(std::int64_t gpus) {
  for (Stairs& stairs : stairs_) {
    if (stairs.gpus == gpus) return stairs;
  }
  return stairs_.emplace_back(Stairs{gpus, {}});
}

void ParetoFront::add(const Score& score) { of(score.gpus()).add(score); }

void ParetoFront::merge(const ParetoFront& other) {
  for (const Stairs& stairs : other.stairs_) {
    Stairs& mine = of(stairs.gpus);
    for (const Score& score : stairs.steps) mine.add(score);
  }
}

std::vector<Score> ParetoFront::sorted() const {
  std::vector<Stairs> by_gpus = stairs_;
  std::sort(by_gpus.begin(), by_gpus.end(),
            [](const Stairs& a, const Stairs& b) { return a.gpus < b.gpus; });
  // A plan of more GPUs has to beat all those of fewer.
  Stairs cheaper;
  std::vector<Score> front;
  for (const Stairs& stairs : by_gpus) {
    const Stairs before = cheaper;
    for (const Score& score : stairs.steps) {
      const bool beaten =
          std::any_of(before.steps.begin(), before.steps.end(), [&](const Score& other) {
            return other.step_s <= score.step_s && other.bytes <= score.bytes;
          });
      if (beaten) continue;
      front.push_back(score);
      cheaper.add(score);
    }
  }
  std::sort(front.begin(), front.end(), [](const Score& a, const Score& b) {
    if (a.step_s != b.step_s || a.bytes != b.bytes) return earlier(a, b);
    return a.gpus() < b.gpus();
  });
  return front;
}

}  // namespace nqd::planner::search
