// What the files of rules share: how a violation is worded, and the list of rules of each file.
// Private to planner/rules/ and check_mesh.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "planner/spec.h"

namespace nqd::planner::rules {

using Diagnostics = std::vector<Diagnostic>;
// Appends what `config` violates; most judge one thing and append at most one.
using Check = void (*)(const Config& config, Diagnostics& out);

std::span<const Check> mesh_checks();      // world, devices, domains, families
std::span<const Check> model_checks();     // what tp and cp divide, and shapes that contradict
std::span<const Check> stage_checks();     // layers, virtual stages, schedules
std::span<const Check> expert_checks();    // experts and the expert mesh
std::span<const Check> sharding_checks();  // engines, runtimes, offload
std::span<const Check> numerics_checks();  // what canonical sums ask of tp
std::span<const Check> training_checks();  // batch, precision, recomputation, learning rate

std::string text(std::int64_t value);

// A value that a rule judged, for the reader to find; see `locate` in planner/config/config.h.
RelatedPlace value_of(std::string path, const std::string& value);
RelatedPlace value_of(std::string path, std::int64_t value);

// An error at `path` with the values that it depends on.
Diagnostic violation(std::string code, std::string path, std::string message, std::string hint,
                     std::initializer_list<RelatedPlace> related);
Diagnostic warning(Diagnostic diagnostic);
Diagnostic note(Diagnostic diagnostic);

// "8, 16, 32".
std::string listed(const std::vector<std::int64_t>& values);
// Divisors of `value` up to `limit`, at most the eight nearest to `near`, ascending.
std::vector<std::int64_t> divisors(std::int64_t value, std::int64_t limit, std::int64_t near);
// "48 or 64": the multiples of `step` around `value`.
std::string nearest_multiples(std::int64_t value, std::int64_t step);

struct Factor {
  std::string_view name;
  std::int64_t value = 1;
};
// "dp·tp·pp = 2·4·2 = 16".
std::string product(const std::vector<Factor>& factors);
// "heads % tp = 2 % 4 = 2".
std::string remainder(const Factor& value, const Factor& divisor);

// The mesh with its arithmetic; cp is named when there is one.
std::string mesh_arithmetic(const ParallelSpec& parallel);

}  // namespace nqd::planner::rules
