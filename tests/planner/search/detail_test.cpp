#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "planner/search/detail.h"
#include "planner/search/search.h"
#include "planner/search/sweep.h"
#include "planner/search/table.h"
#include "tests/planner/search/search_configs.h"

namespace nqd::planner::search {
namespace {

TEST_CASE("the event simulation agrees with the closed form that ranked the plans") {
  Config config = small_config(2, 4);
  config.model.hidden = 2048;
  config.model.head_dim = 256;
  config.model.ffn_hidden = 8192;
  config.model.sequence = 2048;
  config.train.global_batch_size = 96;
  SearchOptions options;
  const SearchResult result = search(config, options);
  double worst = 0;
  for (const Score& score : result.found.best) {
    const Detail detail = detail_of(config, score, 0, true);
    REQUIRE(detail.simulated_step_s);
    CAPTURE(mesh_text(score.candidate));
    worst = std::max(worst, std::abs(*detail.simulated_step_s / detail.time.step_s - 1));
    // Without a pipeline both are the same sum.
    if (score.candidate.pp == 1) {
      CHECK(*detail.simulated_step_s == doctest::Approx(detail.time.step_s).epsilon(1e-9));
    }
    const double sum = detail.time.compute_s + detail.time.exposed_s + detail.time.bubble_s +
                       detail.time.optimizer_s + detail.time.jitter_s;
    CHECK(sum == doctest::Approx(detail.time.step_s).epsilon(1e-9));
  }
  MESSAGE("largest difference " << worst);
  CHECK(worst < 0.05);
}

TEST_CASE("sweeps name their keys by path, by leaf or by nickname") {
  const SweepAxis nodes = read_sweep("nodes=8,16");
  CHECK(nodes.path == "cluster.nodes");
  CHECK(nodes.values == std::vector<std::string>{"8", "16"});
  CHECK(read_sweep("nic=200Gb/s").path == "cluster.inter_node.bandwidth_bytes_per_s");
  CHECK(read_sweep("train.seed=1").path == "train.seed");
  CHECK(sweep_points({nodes, read_sweep("sequence=1,2,3")}).size() == 6);
  // alpha_s is one of several links.
  for (const char* wrong : {"nodes", "nodes=", "=8", "nodes=8,,16", "nodez=8", "alpha_s=1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(read_sweep(wrong), Error);
  }
}

TEST_CASE("columns are aligned by characters, empty ones are left out") {
  Table table({"a", "b", "c"});
  table.add({"1 · 2", "-", "x"});
  table.add({"10", "-", "y"});
  CHECK(table.text() == "  a      c\n  1 · 2  x\n  10     y\n");
}

}  // namespace
}  // namespace nqd::planner::search
