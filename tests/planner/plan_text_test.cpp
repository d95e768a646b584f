#include "planner/plan/plan_text.h"

#include <doctest/doctest.h>

#include "planner/planner.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a plan shows both units, every category, groups, bubble, time and verdict") {
  Config config = gpt3_config();
  config.train.recompute = Recompute::kFull;
  config.parallel.sequence_parallel = true;
  const std::string text = render_plan(make_plan(config));
  CAPTURE(text);
  CHECK(contains(text, "dp 1 x tp 8 x pp 8 = 64 ranks, engine ddp, bfloat16"));
  CHECK(contains(text, "stages 1-1") == false);
  CHECK(contains(text, "moments"));
  CHECK(contains(text, " GiB)"));
  CHECK(contains(text, "send_recv (auto)"));
  CHECK(contains(text,
                 " of the step, 9.9 % if all stages were equal (p = 8, m = 64, schedule 1f1b)"));
  CHECK(contains(text, "MFU "));
  CHECK(contains(text, "verdict  pass: "));
  CHECK(contains(text, "advice   "));
  CHECK(text.back() == '\n');
}

TEST_CASE("golden: 70e9 parameters under zero1 on 64 ranks print as 293.13 GB") {
  const std::string text = render_plan(make_plan(state_config(70e9, Engine::kZero1, 64)));
  CHECK(contains(text, "persistent              293.13 GB ("));
}

TEST_CASE("stages of equal memory share a column") {
  Config config = gpt3_config();
  config.parallel.schedule = Schedule::kGPipe;
  const std::string text = render_plan(make_plan(config));
  CHECK(contains(text, "stages 1-6"));
}

TEST_CASE("what is unknown is not printed as a number") {
  const std::string text = render_plan(make_plan(cpu_config(2)));
  CHECK(contains(text, "step     unknown"));
  CHECK(contains(text, "limit unknown"));
  CHECK_FALSE(contains(text, "MFU"));
  CHECK(contains(render_plan(make_plan(cpu_config(1))), "communication: none"));
}

TEST_CASE("a known time of 0 is printed as one") {
  Plan plan = make_plan(cpu_config(2));
  plan.communication = {{"dp", "all_reduce", "ring", 1, 8, 0, 0, true}};
  const std::string text = render_plan(plan);
  CHECK(contains(text, "8 B         0 s         0 s\n"));
  plan.communication[0].time_known = false;
  CHECK(contains(render_plan(plan), "8 B     unknown     unknown\n"));
}

TEST_CASE("axes that a mesh has, and no others, are named") {
  Plan plan = make_plan(gpt3_config());
  plan.config.parallel.cp = 2;
  plan.config.parallel.ep = 4;
  plan.config.parallel.order = MeshOrder::kDpThenPp;
  CHECK(contains(render_plan(plan),
                 "dp 1 x tp 8 x cp 2 x pp 8 = 128 ranks, ep 4, order tp-cp-dp-pp, engine ddp"));
}

TEST_CASE("the time has its error bar, and what it costs") {
  Plan plan = make_plan(state_config(1e9, Engine::kDdp, 8));
  plan.config.train.tokens = 15e12;
  plan.config.cluster.calibration_source = "b.json, 2026-11-29T14:00:00Z, host h";
  plan.time.step_s = 2;
  plan.time.tokens_per_s = 1000;
  plan.time.jitter_s = 0.5;
  plan.time.error_bar_fraction = 0.031;
  plan.time.error_bar_source = "23 published runs";
  plan.operations = {2e6, 128, 30.25, 92928};
  constexpr std::time_t kThreeDaysLater = 1795960800 + 3 * 86400;
  const std::string text = render_plan(plan, kThreeDaysLater);
  CAPTURE(text);
  CHECK(contains(text, " + stragglers 500.00 ms\n"));
  CHECK(contains(text, "+- 3.1 % (23 published runs)\n"));
  CHECK(contains(text, "input    2.00 MB (1.91 MiB) a second and node\n"));
  CHECK(contains(text, "cost     $128.00 an hour\n"));
  CHECK(contains(text, "tokens   15.00 T in 30.2 days for $92,928\n"));
  CHECK(contains(text, "rates    measured: b.json, 2026-11-29T14:00:00Z, host h (3 days old)\n"));
  CHECK_FALSE(contains(render_plan(plan), "days old"));
}

TEST_CASE("a verdict says what is to spare, or how to mend it") {
  const std::string fits = render_plan(make_plan(state_config(1e9, Engine::kDdp, 8)));
  CHECK(contains(fits, "of 80.00 GB (74.51 GiB), "));
  CHECK(contains(fits, " to spare\n"));
  const std::string big = render_plan(make_plan(state_config(70e9, Engine::kDdp, 64)));
  CHECK(contains(big, "verdict  fail: NQD1301 "));
  CHECK(contains(big, "to fix   parallel.engine: zero3"));
}

TEST_CASE("the table names the first error of each config and counts") {
  PlanVerdict good{"a.yaml", true, make_plan(state_config(1e9, Engine::kDdp, 8))};
  PlanVerdict big{"dir/big.yaml", true, make_plan(state_config(175e9, Engine::kDdp, 8))};
  PlanVerdict malformed{"bad.yaml", false, {}};
  Diagnostic warning;
  warning.severity = Severity::kWarning;
  warning.code = "NQD1302";
  Diagnostic error;
  error.code = "NQD1002";
  error.message = "unknown key";
  malformed.plan.diagnostics = {warning, error};
  const std::string text = render_table({good, big, malformed});
  CAPTURE(text);
  CHECK(contains(text, "a.yaml        pass  16.05 GB (14.95 GiB) of 80.00 GB (74.51 GiB)\n"));
  CHECK(contains(text, "dir/big.yaml  fail  NQD1301 a rank of stage 0 needs 2.80 TB"));
  CHECK(contains(text, "bad.yaml      fail  NQD1002 unknown key\n"));
  CHECK(contains(text, "1 of 3 pass\n"));
}

}  // namespace
}  // namespace nqd::planner
