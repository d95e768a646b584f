// How layers become stages, and which schedule runs them.
#include <algorithm>
#include <array>
#include <numeric>

#include "planner/rules/legality.h"
#include "planner/rules/rule.h"

namespace nqd::planner::rules {
namespace {

bool even(const Config& c) { return c.parallel.pipeline_split.empty(); }

void check_layers(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const std::int64_t layers = c.model.layers;
  if (!is_transformer(c.model) || !even(c) || layers_even(layers, p.pp, p.vpp) ||
      layers_dropped(layers, p.pp, p.vpp)) {
    return;
  }
  const std::int64_t stages = p.pp * p.vpp;
  out.push_back(violation("NQD1206", "parallel.pp",
                          "layers % (pp·vpp) = " + text(layers) + " % (" + text(p.pp) + "·" +
                              text(p.vpp) + ") = " + text(layers % stages) +
                              ": the stages cannot be equal",
                          "legal values of pp·vpp: " + listed(divisors(layers, layers, stages)) +
                              "; or give parallel.pipeline_split",
                          {value_of("model.layers", layers), value_of("parallel.vpp", p.vpp)}));
}

void check_dropped_layers(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const std::int64_t layers = c.model.layers;
  if (!is_transformer(c.model) || !even(c) || !layers_dropped(layers, p.pp, p.vpp)) return;
  const std::int64_t a_rank = layers / p.pp;
  const std::int64_t trained = layers_rounded_down(layers, p.pp, p.vpp);
  out.push_back(violation("NQD1227", "parallel.vpp",
                          "the " + text(layers) + "/" + text(p.pp) + " = " + text(a_rank) +
                              " layers of a rank do not make vpp = " + text(p.vpp) +
                              " equal virtual stages: a launcher that rounds down trains " +
                              text(p.pp) + "·" + text(p.vpp) + "·" +
                              text(trained / (p.pp * p.vpp)) + " = " + text(trained) + " of " +
                              text(layers) + " layers, without a word",
                          "legal values of vpp here: " + listed(divisors(a_rank, a_rank, p.vpp)) +
                              "; or give parallel.pipeline_split",
                          {value_of("model.layers", layers), value_of("parallel.pp", p.pp)}));
}

void check_split_length(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const auto entries = static_cast<std::int64_t>(p.pipeline_split.size());
  if (entries == 0 || entries == p.pp * p.vpp) return;
  out.push_back(violation("NQD1207", "parallel.pipeline_split",
                          "pipeline_split has " + text(entries) + " entries, but " +
                              product({{"pp", p.pp}, {"vpp", p.vpp}}) + " stages",
                          "give one number of layers for each stage",
                          {value_of("parallel.pp", p.pp), value_of("parallel.vpp", p.vpp)}));
}

void check_split_sum(const Config& c, Diagnostics& out) {
  const std::vector<std::int64_t>& split = c.parallel.pipeline_split;
  if (!is_transformer(c.model) || split.empty()) return;
  const std::int64_t sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  if (sum == c.model.layers) return;
  out.push_back(violation(
      "NQD1208", "parallel.pipeline_split",
      "pipeline_split places " + text(sum) + " layers, but the model has " + text(c.model.layers),
      "make its entries sum to " + text(c.model.layers),
      {value_of("model.layers", c.model.layers)}));
}

void check_virtual_stages(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (virtual_stages_piped(p.pp, p.vpp)) return;
  out.push_back(
      violation("NQD1210", "parallel.vpp", "vpp = " + text(p.vpp) + " needs a pipeline, but pp = 1",
                "set parallel.vpp to 1, or raise parallel.pp", {value_of("parallel.pp", p.pp)}));
}

bool zero_bubble(Schedule schedule) {
  return schedule == Schedule::kZbH1 || schedule == Schedule::kZbH2 || schedule == Schedule::kZbV;
}

void check_zero_bubble(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (!zero_bubble(p.schedule) || p.pp > 1 || p.vpp > 1) return;
  out.push_back(violation("NQD1232", "parallel.schedule",
                          "the schedule " + std::string(name(p.schedule)) +
                              " fills the bubble of a pipeline, but pp = 1",
                          "set parallel.schedule to 1f1b, or raise parallel.pp",
                          {value_of("parallel.pp", p.pp)}));
}

// What the schedule makes of a rank's layers, when that is not what vpp says.
struct StagesWanted {
  std::string message;
  std::string hint;
};

// The smallest number of virtual stages, above one, that even stages allow; 0 = none.
std::int64_t even_virtual_stages(const Config& c) {
  const std::int64_t a_rank = c.model.layers / c.parallel.pp;
  if (!is_transformer(c.model) || !even(c) || !divides(c.parallel.pp, c.model.layers)) return 0;
  for (std::int64_t vpp = 2; vpp <= a_rank; ++vpp) {
    if (divides(vpp, a_rank)) return vpp;
  }
  return 0;
}

StagesWanted stages_wanted(const Config& c) {
  const std::string shown(name(c.parallel.schedule));
  const std::int64_t vpp = c.parallel.vpp;
  if (c.parallel.schedule == Schedule::kInterleaved) {
    const std::int64_t fits = even_virtual_stages(c);
    return {"the interleaved schedule needs vpp > 1, but vpp = 1",
            "set parallel.schedule to 1f1b" +
                (fits > 0 ? ", or parallel.vpp to " + text(fits) : std::string())};
  }
  if (c.parallel.schedule == Schedule::kZbV) {
    return {"the schedule zb-v needs vpp = 2, the two arms of its V, but vpp = " + text(vpp),
            "set parallel.vpp to 2"};
  }
  return {"vpp = " + text(vpp) + " needs the interleaved schedule, but schedule = " + shown,
          "set parallel.schedule to interleaved, or parallel.vpp to 1"};
}

void check_schedule(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  // Without a pipeline NQD1210 or NQD1232 says what is wrong.
  const bool piped = virtual_stages_piped(p.pp, p.vpp) && (!zero_bubble(p.schedule) || p.pp > 1);
  if (!piped || schedule_takes(p.schedule, std::max<std::int64_t>(p.pp, 2), p.vpp)) return;
  StagesWanted wanted = stages_wanted(c);
  out.push_back(violation("NQD1223", "parallel.schedule", wanted.message, wanted.hint,
                          {value_of("parallel.vpp", p.vpp), value_of("parallel.pp", p.pp)}));
}

void check_interleaving(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const TrainSpec& t = c.train;
  if (!schedule_takes(p.schedule, p.pp, p.vpp) ||
      !batch_divides(t.global_batch_size, t.micro_batch_size, p.dp)) {
    return;
  }
  const std::int64_t m = c.micro_batches();
  if (micro_batches_grouped(p.schedule, p.pp, m)) return;
  out.push_back(violation(
      "NQD1211", "train.global_batch_size",
      "the interleaved schedule needs micro-batches in multiples of pp, but m = " +
          text(t.global_batch_size) + "/(" + text(t.micro_batch_size) + "·" + text(p.dp) +
          ") = " + text(m) + " and pp = " + text(p.pp),
      "the nearest legal global_batch_size is " +
          nearest_multiples(t.global_batch_size, t.micro_batch_size * p.dp * p.pp),
      {value_of("train.micro_batch_size", t.micro_batch_size), value_of("parallel.dp", p.dp),
       value_of("parallel.pp", p.pp), value_of("parallel.vpp", p.vpp),
       value_of("parallel.schedule", std::string(name(p.schedule)))}));
}

void check_recompute_groups(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  const std::int64_t every = c.train.recompute_every;
  const std::int64_t layers = c.model.layers;
  if (!is_transformer(c.model) || c.train.recompute != Recompute::kFull) return;
  if (even(c) && !layers_even(layers, p.pp, p.vpp)) return;
  const std::vector<std::int64_t> stages =
      even(c) ? std::vector<std::int64_t>{layers / (p.pp * p.vpp)} : p.pipeline_split;
  const auto odd = std::find_if(stages.begin(), stages.end(), [&](std::int64_t stage) {
    return !recompute_groups_equal(c.train.recompute, every, stage);
  });
  if (odd == stages.end()) return;
  const std::int64_t common =
      std::accumulate(stages.begin(), stages.end(), std::int64_t{0},
                      [](std::int64_t a, std::int64_t b) { return std::gcd(a, b); });
  out.push_back(
      violation("NQD1246", "train.recompute_every",
                remainder({"stage layers", *odd}, {"recompute_every", every}) +
                    ": the groups of layers that are computed again must be equal",
                "legal values of recompute_every: " + listed(divisors(common, common, every)),
                {value_of("model.layers", layers), value_of("parallel.pp", p.pp),
                 value_of("parallel.vpp", p.vpp)}));
}

constexpr std::array<Check, 9> kChecks = {
    check_layers,    check_dropped_layers, check_split_length,
    check_split_sum, check_virtual_stages, check_zero_bubble,
    check_schedule,  check_interleaving,   check_recompute_groups,
};

}  // namespace

std::span<const Check> stage_checks() { return kChecks; }

}  // namespace nqd::planner::rules
