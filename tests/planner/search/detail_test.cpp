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

// 13 billion parameters on one node, as in configs/gpt3-13b-pp.yaml.
Config heavy_config() {
  Config config = small_config(1, 8);
  ModelSpec& model = config.model;
  model.layers = 40;
  model.hidden = 5120;
  model.heads = model.kv_heads = 40;
  model.head_dim = 128;
  model.ffn_hidden = 20480;
  model.vocab = 51200;
  model.sequence = 2048;
  config.cluster.memory_bytes = 80e9;
  config.train.global_batch_size = 64;
  return config;
}

// |simulated ÷ closed form − 1| of one plan.
double disagreement(const Config& config, const Score& score) {
  const Detail detail = detail_of(config, score, 0, true);
  REQUIRE(detail.simulated_step_s);
  return std::abs(*detail.simulated_step_s / detail.time.step_s - 1);
}

TEST_CASE("the event simulation agrees with the closed form that ranked the plans") {
  const Config config = heavy_config();
  for (const Score& score : search(config, {}).found.best) {
    CAPTURE(mesh_text(score.candidate));
    const double difference = disagreement(config, score);
    CHECK(difference < 0.03);
    // Without a pipeline both are the same sum.
    if (score.candidate.pp == 1) CHECK(difference < 1e-9);
  }
}

TEST_CASE("of other kinds of plans too, most of all where virtual stages are equal") {
  const Config config = heavy_config();
  SearchOptions options;
  options.one_a_mesh = false;
  options.keep = 100'000;
  const std::vector<Score> all = search(config, options).found.best;
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < all.size(); i += 67) {
    const Candidate& c = all[i].candidate;
    CAPTURE(mesh_text(c));
    CAPTURE(name(c.schedule));
    const double difference = disagreement(config, all[i]);
    const bool equal = config.model.layers % (c.pp * c.vpp) == 0;
    CHECK(difference < (equal ? 0.08 : 0.25));
    sum += difference;
    ++count;
  }
  CHECK(count > 100);
  CHECK(sum / count < 0.02);
}

TEST_CASE("the parts of a step are all of it") {
  const Config config = heavy_config();
  for (const Score& score : search(config, {}).found.best) {
    const StepTime time = detail_of(config, score, 0, false).time;
    CHECK(time.compute_s + time.exposed_s + time.bubble_s + time.optimizer_s + time.jitter_s ==
          doctest::Approx(time.step_s).epsilon(1e-9));
  }
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
