#include "reports/crossovers.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "collectives/bench/compare.h"
#include "collectives/cost.h"

namespace nqd::reports {
namespace {

struct Place {
  std::string collective;
  int ranks = 0;
  bool inside_node = true;
  std::string backend;
  bool registered = false;
  auto operator<=>(const Place&) const = default;
};

using Samples = std::vector<double>;
using Algorithms = std::map<std::string, Samples>;              // by name
using Sweep = std::map<std::uint64_t, Algorithms>;              // by payload
using Sweeps = std::map<std::pair<Place, std::string>, Sweep>;  // and by how it was measured

bool can_be_chosen(const collectives::BenchRow& row) {
  using collectives::Algorithm;
  using collectives::Collective;
  const std::optional<Collective> collective = collectives::parse_collective(row.collective);
  const std::optional<Algorithm> algorithm = collectives::parse_algorithm(row.algorithm);
  // Canonical numerics choose for themselves.
  const bool fast = row.numerics != collectives::name(collectives::Numerics::kCanonical);
  return fast && collective && algorithm && algorithm != Algorithm::kAuto &&
         collective != Collective::kGather && collective != Collective::kScatter &&
         collectives::is_executable(*collective, *algorithm);
}

Sweeps collect(const std::vector<SampleRow>& rows) {
  Sweeps sweeps;
  for (const SampleRow& sample : rows) {
    const collectives::BenchRow& row = *sample.row;
    if (!can_be_chosen(row)) continue;
    const Place place{row.collective, row.ranks, sample.inside_node, row.backend, row.registered};
    Samples& samples = sweeps[{place, sample.how}][row.effective_bytes][row.algorithm];
    samples.insert(samples.end(), row.samples_s.begin(), row.samples_s.end());
  }
  return sweeps;
}

double median(const Samples& samples) { return collectives::percentile(samples, 0.5); }

std::string fastest(const Algorithms& algorithms) {
  return std::min_element(
             algorithms.begin(), algorithms.end(),
             [](const auto& a, const auto& b) { return median(a.second) < median(b.second); })
      ->first;
}

bool moves(const Algorithms& algorithms, const std::string& from, const std::string& to) {
  const auto so_far = algorithms.find(from);
  if (so_far == algorithms.end()) return true;
  const Samples& better = algorithms.at(to);
  return median(better) < median(so_far->second) &&
         collectives::mann_whitney_p(so_far->second, better) < collectives::kSignificance;
}

std::vector<planner::CrossoverChoice> choose(const Sweep& sweep) {
  std::vector<planner::CrossoverChoice> choices;
  for (const auto& [bytes, algorithms] : sweep) {
    if (algorithms.size() < 2) continue;
    const std::string best = fastest(algorithms);
    if (choices.empty() || moves(algorithms, choices.back().algorithm, best)) {
      choices.push_back({static_cast<double>(bytes), best});
    }
  }
  return choices;
}

}  // namespace

std::vector<planner::Crossovers> find_crossovers(const std::vector<SampleRow>& rows,
                                                 std::vector<std::string>& skipped) {
  std::map<Place, std::vector<std::pair<std::string, std::vector<planner::CrossoverChoice>>>> ways;
  for (const auto& [key, sweep] : collect(rows)) {
    std::vector<planner::CrossoverChoice> choices = choose(sweep);
    if (!choices.empty()) ways[key.first].emplace_back(key.second, std::move(choices));
  }
  std::vector<planner::Crossovers> crossovers;
  for (const auto& [place, found] : ways) {
    if (found.size() > 1) {
      skipped.push_back("crossovers of " + place.collective + " on " + std::to_string(place.ranks) +
                        " ranks were measured in two ways: " + found[0].first + "; and " +
                        found[1].first);
      continue;
    }
    crossovers.push_back({place.collective, place.ranks, place.inside_node, place.backend,
                          place.registered, found.front().second});
  }
  return crossovers;
}

}  // namespace nqd::reports
