#include <doctest/doctest.h>

#include "reports/evidence.h"
#include "reports/json_field.h"
#include "tests/reports/sample_records.h"

namespace nqd::reports {
namespace {

using namespace testing;

PlannedConfig invalid_config() {
  PlannedConfig config;
  config.path = "configs/invalid/heads.yaml";
  config.plan = sample_plan();
  config.plan.valid = false;
  config.plan.memory.limit_bytes = 0;
  config.plan.communication = {{"dp", "all_reduce", "ring", 1, 8, 0, 0, false},
                               {"tp", "all_reduce", "ring", 1, 8, 0, 0, true}};
  config.plan.diagnostics = {{.code = "NQD1203",
                              .severity = Severity::kError,
                              .where = {"configs/invalid/heads.yaml", 4, 7},
                              .path = "parallel.tp",
                              .message = "heads must be divisible by tp",
                              .expected = "a divisor of 6",
                              .got = "4",
                              .hint = "tp: 2",
                              .source_line = "  tp: 4",
                              .caret_length = 1,
                              .related = {{{"configs/invalid/heads.yaml", 2, 3}, "heads is here"}}},
                             {.code = "NQD1301",
                              .severity = Severity::kWarning,
                              .where = {},
                              .path = {},
                              .message = "the limit is unknown",
                              .expected = {},
                              .got = {},
                              .hint = {},
                              .source_line = {},
                              .caret_length = 1,
                              .related = {}}};
  return config;
}

}  // namespace

TEST_CASE("a calibration is named with its time, a map of ranks only on request") {
  PlannedConfig config;
  config.path = "a.yaml";
  config.plan = sample_plan();
  config.plan.config.cluster.calibration_source = "b.json, 2026-11-29T14:00:00Z, host h";
  const auto first = [&](bool rank_maps) {
    const std::string text = plan_json({config}, rank_maps);
    return JsonField::parse(text, "plan.json").at("configs").items().at(0);
  };
  CHECK(first(false).at("calibration").at("measured_at").text() == "2026-11-29T14:00:00Z");
  CHECK_FALSE(first(false).find("rank_map"));
  const auto map = first(true).at("rank_map");
  CHECK(map.at("ranks").items().size() == 2);
  CHECK(map.at("ranks").items().at(1).at("dp").integer<int>() == 1);
  CHECK(map.at("groups").at("dp").items().size() == 1);
  CHECK(map.at("groups").at("tp").items().size() == 2);
}

TEST_CASE("mesh-plan's document has the fields of its contract") {
  PlannedConfig unreadable;
  unreadable.path = "configs/none.yaml";
  unreadable.loaded = false;
  unreadable.plan.diagnostics = {invalid_config().plan.diagnostics[1]};
  PlannedConfig valid;
  valid.path = "configs/quickstart.yaml";
  valid.plan = sample_plan();
  const std::string text = plan_json({valid, invalid_config(), unreadable});
  const auto path = write_sample("mesh-plan.json", text);
  const auto configs = JsonField::parse(text, path).at("configs").items();
  REQUIRE(configs.size() == 3);

  CHECK(configs[0].at("path").text() == "configs/quickstart.yaml");
  CHECK(configs[0].at("valid").boolean());
  CHECK(configs[0].at("diagnostics").items().empty());
  CHECK(configs[0].at("mesh").at("dp").integer<int>() == 2);
  CHECK(configs[0].at("mesh").at("engine").text() == "ddp");
  CHECK(configs[0].at("mesh").at("ranks").integer<int>() == 2);
  CHECK(configs[0].at("mesh").at("cp").integer<int>() == 1);
  CHECK(configs[0].at("mesh").at("expert_tp").integer<int>() == 1);
  CHECK(configs[0].at("mesh").at("order").text() == "tp-cp-pp-dp");
  const auto stage = configs[0].at("memory").at("stages").items().at(0);
  CHECK(stage.at("categories").at("weights_bytes").integer<int>() == 43'204'608);
  CHECK(stage.at("total_bytes").number() == 86'410'240.5);
  CHECK(configs[0].at("memory").at("limit_bytes").integer<std::int64_t>() == 8'589'934'592);
  CHECK(configs[0].at("memory").at("fits").boolean());
  const auto group = configs[0].at("communication").items().at(0);
  CHECK(group.at("group").text() == "dp");
  CHECK(group.at("time_s").number() == 0.012);
  CHECK(group.at("exposed_s").number() == 0.002);
  CHECK(configs[0].at("pipeline").at("bubble_fraction").number() == 0);
  CHECK(configs[0].at("time").at("step_s").number() == 0.079);
  CHECK(configs[0].at("time").at("bubble_s").number() == 0);
  CHECK(configs[0].at("mfu").number() == 0.42);

  CHECK_FALSE(configs[1].at("valid").boolean());
  const auto diagnostics = configs[1].at("diagnostics").items();
  REQUIRE(diagnostics.size() == 2);
  CHECK(diagnostics[0].at("code").text() == "NQD1203");
  CHECK(diagnostics[0].at("severity").text() == "error");
  CHECK(diagnostics[0].at("line").integer<int>() == 4);
  CHECK(diagnostics[0].at("column").integer<int>() == 7);
  CHECK(diagnostics[0].at("path").text() == "parallel.tp");
  CHECK(diagnostics[0].at("expected").text() == "a divisor of 6");
  CHECK(diagnostics[0].at("got").text() == "4");
  CHECK(diagnostics[0].at("hint").text() == "tp: 2");
  CHECK(diagnostics[0].at("related").items().at(0).at("line").integer<int>() == 2);
  CHECK(diagnostics[1].at("severity").text() == "warning");
  CHECK_FALSE(diagnostics[1].find("line"));
  CHECK_FALSE(diagnostics[1].find("hint"));

  CHECK_FALSE(configs[1].at("memory").find("fits"));
  const auto untimed = configs[1].at("communication").items().at(0);
  CHECK_FALSE(untimed.find("time_s"));
  CHECK_FALSE(untimed.find("exposed_s"));
  CHECK(configs[1].at("communication").items().at(1).at("time_s").number() == 0);

  CHECK_FALSE(configs[2].at("valid").boolean());
  CHECK_FALSE(configs[2].find("memory"));
  CHECK_FALSE(configs[2].find("mesh"));
}

}  // namespace nqd::reports
