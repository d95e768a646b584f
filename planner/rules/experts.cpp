// Experts, and the mesh that holds them: the dp·cp·tp ranks of a stage, taken expert_tp and ep at a
// time.
#include <array>

#include "planner/rules/legality.h"
#include "planner/rules/rule.h"

namespace nqd::planner::rules {
namespace {

void check_dense_layers(const Config& c, Diagnostics& out) {
  const MoeSpec& moe = c.model.moe;
  if (moe.experts == 0 || moe.dense_layers < c.model.layers) return;
  out.push_back(violation("NQD1240", "model.moe.dense_layers",
                          "dense_layers = " + text(moe.dense_layers) + " leaves none of the " +
                              text(c.model.layers) + " layers to the experts",
                          "set model.moe.dense_layers below " + text(c.model.layers),
                          {value_of("model.layers", c.model.layers)}));
}

void check_capacity(const Config& c, Diagnostics& out) {
  const double factor = c.model.moe.capacity_factor;
  if (factor <= 0 || factor >= 1) return;
  out.push_back(
      warning(violation("NQD1258", "model.moe.capacity_factor",
                        "a capacity_factor below 1 drops tokens even when every expert "
                        "gets equally many",
                        "set model.moe.capacity_factor to 1 or more, or to 0 (dropless)", {})));
}

void check_needed(const Config& c, Diagnostics& out) {
  const std::int64_t ep = c.parallel.ep;
  if (ep == 1 || c.model.moe.experts > 0) return;
  out.push_back(violation("NQD1234", "parallel.ep",
                          "ep = " + text(ep) + " divides experts, but the model has none",
                          "set parallel.ep to 1, or give model.moe.experts",
                          {value_of("model.family", c.model.family)}));
}

void check_division(const Config& c, Diagnostics& out) {
  const std::int64_t experts = c.model.moe.experts;
  const std::int64_t ep = c.parallel.ep;
  if (experts == 0 || experts_split(experts, ep)) return;
  out.push_back(violation(
      "NQD1235", "parallel.ep",
      remainder({"experts", experts}, {"ep", ep}) + ": every ep rank holds equally many experts",
      "legal values of ep here: " + listed(divisors(experts, experts, ep)),
      {value_of("model.moe.experts", experts)}));
}

void check_expert_tp(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (expert_tp_divides(p.expert_tp, p.tp)) return;
  out.push_back(
      violation("NQD1237", "parallel.expert_tp",
                "expert_tp = " + text(p.expert_tp) + " does not divide tp = " + text(p.tp) +
                    ": an expert lies on some of the ranks of a tp group",
                "legal values of expert_tp here: " + listed(divisors(p.tp, p.tp, p.expert_tp)),
                {value_of("parallel.tp", p.tp)}));
}

std::int64_t expert_tp(const ParallelSpec& p) { return p.expert_tp > 0 ? p.expert_tp : p.tp; }

void check_expert_mesh(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (!expert_tp_divides(p.expert_tp, p.tp) ||
      expert_ranks_fit(p.dp, p.cp, p.tp, p.ep, p.expert_tp)) {
    return;
  }
  const std::int64_t stage = p.dp * p.cp * p.tp;
  out.push_back(
      violation("NQD1236", "parallel.ep",
                "ep·expert_tp = " + text(p.ep) + "·" + text(expert_tp(p)) + " = " +
                    text(p.ep * expert_tp(p)) + " does not divide the dp·cp·tp = " + text(p.dp) +
                    "·" + text(p.cp) + "·" + text(p.tp) + " = " + text(stage) + " ranks of a stage",
                "legal values of ep here: " +
                    listed(divisors(stage / expert_tp(p), stage / expert_tp(p), p.ep)),
                {value_of("parallel.expert_tp", p.expert_tp), value_of("parallel.dp", p.dp),
                 value_of("parallel.cp", p.cp), value_of("parallel.tp", p.tp)}));
}

void check_expert_width(const Config& c, Diagnostics& out) {
  const MoeSpec& moe = c.model.moe;
  const ParallelSpec& p = c.parallel;
  if (moe.experts == 0 || !expert_tp_divides(p.expert_tp, p.tp)) return;
  const auto judge = [&](const std::string& key, std::int64_t width, Factor ranks) {
    if (width_splits(width, ranks.value)) return;
    out.push_back(violation(
        "NQD1239", "model.moe." + key,
        remainder({key, width}, ranks) + ": its ranks hold equally many columns of the expert",
        "set model.moe." + key + " to " + nearest_multiples(width, ranks.value) +
            ", or parallel.expert_tp "
            "to 1",
        {value_of("parallel.tp", p.tp), value_of("parallel.expert_tp", p.expert_tp)}));
  };
  judge("expert_hidden", moe.expert_hidden, {"expert_tp", expert_tp(p)});
  judge("shared_expert_hidden", moe.shared_expert_hidden, {"tp", p.tp});
}

void check_tokens(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (c.model.moe.experts == 0 || expert_tokens_distinct(p.ep, p.tp, p.sequence_parallel)) return;
  out.push_back(violation("NQD1254", "parallel.sequence_parallel",
                          "with ep = " + text(p.ep) + " and tp = " + text(p.tp) +
                              " the ranks of a tp group would all send the same tokens to the "
                              "experts",
                          "set parallel.sequence_parallel to true",
                          {value_of("parallel.ep", p.ep), value_of("parallel.tp", p.tp)}));
}

constexpr std::array<Check, 8> kChecks = {
    check_dense_layers, check_capacity,    check_needed,       check_division,
    check_expert_tp,    check_expert_mesh, check_expert_width, check_tokens,
};

}  // namespace

std::span<const Check> expert_checks() { return kChecks; }

}  // namespace nqd::planner::rules
