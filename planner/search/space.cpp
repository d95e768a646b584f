#include "planner/search/space.h"

#include <algorithm>
#include <initializer_list>

#include "planner/rules/legality.h"

namespace nqd::planner::search {
namespace {

constexpr std::initializer_list<Engine> kEngines = {Engine::kDdp, Engine::kZero1, Engine::kZero2,
                                                    Engine::kZero3, Engine::kHsdp};
constexpr std::initializer_list<Recompute> kRecomputes = {Recompute::kNone, Recompute::kSelective,
                                                          Recompute::kFull};
constexpr std::initializer_list<Schedule> kPipelined = {Schedule::kGPipe,       Schedule::k1F1B,
                                                        Schedule::kInterleaved, Schedule::kZbH1,
                                                        Schedule::kZbH2,        Schedule::kZbV};

std::vector<std::int32_t> divisors(std::int64_t value) {
  std::vector<std::int32_t> low;
  std::vector<std::int32_t> high;
  for (std::int64_t d = 1; d * d <= value; ++d) {
    if (!rules::divides(d, value)) continue;
    low.push_back(static_cast<std::int32_t>(d));
    if (d * d != value) high.push_back(static_cast<std::int32_t>(value / d));
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// The fixed value alone where it divides, or all divisors.
std::vector<std::int32_t> factors(std::int64_t value, const std::optional<std::int32_t>& fixed) {
  if (!fixed) return divisors(value);
  if (!rules::divides(*fixed, value)) return {};
  return {*fixed};
}

template <typename T>
std::vector<T> one_or_all(const std::optional<T>& fixed, std::initializer_list<T> all) {
  return fixed ? std::vector<T>{*fixed} : std::vector<T>(all);
}

void add_variants(Schedule schedule, std::int64_t most_virtual, std::vector<Variant>& out) {
  if (schedule == Schedule::kZbV) {
    out.push_back({schedule, 2});
  } else if (schedule == Schedule::kInterleaved) {
    for (std::int64_t vpp = 2; vpp <= most_virtual; ++vpp) {
      out.push_back({schedule, static_cast<std::int32_t>(vpp)});
    }
  } else {
    out.push_back({schedule, 1});
  }
}

// Of a model whose activations are unknown nothing can be recomputed, and only transformers have
// an attention core to select.
bool meant(const Facts& facts, Recompute recompute) {
  return recompute == Recompute::kNone || facts.transformer ||
         (facts.shaped && recompute == Recompute::kFull);
}

}  // namespace

Space::Space(const Facts& facts, const Fixed& fixed)
    : facts_(facts),
      fixed_(fixed),
      engines_(one_or_all(fixed.engine, kEngines)),
      recomputes_(one_or_all(fixed.recompute, kRecomputes)) {
  expert_ranks_ = fixed.ep ? std::vector<std::int32_t>{*fixed.ep}
                           : divisors(std::max<std::int64_t>(facts.experts, 1));
  if (!fixed.recompute) std::erase_if(recomputes_, [&](Recompute r) { return !meant(facts, r); });
  add_meshes();
}

void Space::add_meshes() {
  for (const std::int32_t tp : factors(facts_.devices, fixed_.tp)) {
    for (const std::int32_t pp : factors(facts_.devices / tp, fixed_.pp)) {
      for (const std::int32_t cp : factors(facts_.devices / tp / pp, fixed_.cp)) {
        const auto dp = static_cast<std::int32_t>(facts_.devices / tp / pp / cp);
        if (!fixed_.dp || *fixed_.dp == dp) meshes_.push_back({dp, tp, pp, cp});
      }
    }
  }
}

std::vector<std::int32_t> Space::micro_batch_sizes(const Mesh& mesh) const {
  if (fixed_.micro_batch_size) return {*fixed_.micro_batch_size};
  if (!rules::divides(mesh.dp, facts_.global_batch_size)) return {1};
  return divisors(facts_.global_batch_size / mesh.dp);
}

std::vector<Variant> Space::variants(const Mesh& mesh) const {
  // Without a pipeline all schedules are one.
  const std::vector<Schedule> schedules = one_or_all(
      fixed_.schedule, mesh.pp > 1 ? kPipelined : std::initializer_list<Schedule>{Schedule::k1F1B});
  std::vector<Variant> all;
  for (const Schedule schedule : schedules) {
    add_variants(schedule,
                 std::max<std::int64_t>(facts_.layers / mesh.pp, fixed_.vpp ? *fixed_.vpp : 2),
                 all);
  }
  if (fixed_.vpp) {
    std::erase_if(all, [&](const Variant& variant) { return variant.vpp != *fixed_.vpp; });
    // No schedule takes it: proposed as it is, to be counted under that rule.
    if (all.empty()) all.push_back({schedules.front(), *fixed_.vpp});
  }
  return all;
}

std::vector<bool> Space::sequence_parallel(const Mesh& mesh) const {
  if (fixed_.sequence_parallel) return {*fixed_.sequence_parallel};
  return mesh.tp > 1 ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

std::int64_t Space::size(const Mesh& mesh) const {
  const std::size_t size = expert_ranks_.size() * micro_batch_sizes(mesh).size() *
                           variants(mesh).size() * engines_.size() * recomputes_.size() *
                           sequence_parallel(mesh).size();
  return static_cast<std::int64_t>(size);
}

}  // namespace nqd::planner::search
