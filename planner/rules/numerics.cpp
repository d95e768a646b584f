// What canonical numerics ask of a mesh that nqd's own engine runs.
#include <algorithm>
#include <array>
#include <utility>

#include "planner/estimate/memory/runtime_memory.h"
#include "planner/rules/legality.h"
#include "planner/rules/rule.h"

namespace nqd::planner::rules {
namespace {

constexpr std::int64_t kMostSlices = 64;

// What is cut into slices: every K that tp divides, and the rows where it divides those. The
// vocabulary is padded.
std::vector<Factor> sliced(const Config& c) {
  std::vector<Factor> sides = {{"heads·head_dim", c.model.heads * c.model.head_dim},
                               {"kv_heads·head_dim", c.model.kv_heads * c.model.head_dim},
                               {"ffn_hidden", c.model.ffn_hidden}};
  if (c.parallel.sequence_parallel) {
    sides.push_back({"micro_batch_size·sequence", c.train.micro_batch_size * c.model.sequence});
  }
  return sides;
}

bool cuts_all(const std::vector<Factor>& sides, std::int64_t slices) {
  return std::all_of(sides.begin(), sides.end(),
                     [&](const Factor& side) { return divides(slices, side.value); });
}

}  // namespace

bool slices_cut(const Config& config, std::int64_t slices) {
  return cuts_all(sliced(config), slices);
}

namespace {

std::string remedy(const Config& c, const std::vector<Factor>& sides) {
  std::vector<std::int64_t> legal;
  for (std::int64_t slices = c.parallel.tp; slices <= kMostSlices; slices *= 2) {
    if (cuts_all(sides, slices)) legal.push_back(slices);
  }
  const std::string fast = "set numerics.mode to fast";
  return legal.empty() ? fast
                       : "set numerics.tp_slices to one of " + listed(legal) + ", or " + fast;
}

// The plan stands; it is the run that would be refused.
void check_slices(const Config& c, Diagnostics& out) {
  const std::int64_t tp = c.parallel.tp;
  const std::int64_t slices = c.numerics.tp_slices;
  const bool judged =
      c.numerics.mode == collectives::Numerics::kCanonical && tp > 1 &&
      c.train.runtime == Runtime::kNqd && !has_devices(c.cluster) &&
      (c.model.family == "gpt" || c.model.family == "llama") && heads_split(c.model.heads, tp) &&
      divides(tp, c.model.kv_heads) && width_splits(c.model.ffn_hidden, tp) &&
      sequence_splits(c.model.sequence, c.parallel.cp, tp, c.parallel.sequence_parallel);
  if (!judged) return;
  const std::vector<Factor> sides = sliced(c);
  std::string what;
  if (!canonical_slices(tp, slices)) {
    what = "tp = " + text(tp) + " and tp_slices = " + text(slices) +
           ": in canonical numerics a tp rank computes whole slices, a power of two of them";
  } else if (!cuts_all(sides, slices)) {
    const auto side = std::find_if(sides.begin(), sides.end(), [&](const Factor& factor) {
      return !divides(slices, factor.value);
    });
    what = remainder(*side, {"tp_slices", slices}) +
           ": canonical numerics cut it into equal slices where tp > 1";
  } else {
    return;
  }
  out.push_back(
      warning(violation("NQD1263", "numerics.tp_slices", what + "; nqd's engine will not run this",
                        remedy(c, sides), {value_of("parallel.tp", tp)})));
}

constexpr std::array<Check, 1> kChecks = {check_slices};

}  // namespace

std::span<const Check> numerics_checks() { return kChecks; }

}  // namespace nqd::planner::rules
