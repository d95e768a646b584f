#include "planner/mesh/rank_map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "planner/calibration/calibration_age.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

using Ranks = std::vector<std::int64_t>;

// tp 2 · cp 2 · pp 2 · dp 2 on two nodes of eight that share four adapters.
Config small(MeshOrder order) {
  Config config;
  config.model = gpt_model(4, 64, 8, 1000, 128);
  config.cluster.nodes = 2;
  config.cluster.gpus_per_node = 8;
  config.cluster.nics_per_node = 4;
  config.parallel.dp = config.parallel.tp = config.parallel.cp = config.parallel.pp = 2;
  config.parallel.order = order;
  return config;
}

TEST_CASE("the same rank under both orders") {
  const RankPlace own = RankMap(small(MeshOrder::kPpThenDp)).place(13);
  CHECK(own.node == 1);
  CHECK(own.gpu == 5);
  CHECK(own.nic == 2);
  CHECK(own.tp == 1);
  CHECK(own.cp == 0);
  CHECK(own.pp == 1);
  CHECK(own.dp == 1);
  const RankPlace megatron = RankMap(small(MeshOrder::kDpThenPp)).place(6);
  CHECK(megatron.cp == 1);
  CHECK(megatron.dp == 1);
  CHECK(megatron.pp == 0);
}

TEST_CASE("groups under both orders") {
  const RankMap own(small(MeshOrder::kPpThenDp));
  CHECK(own.members(MeshAxis::kTp, 3) == Ranks{6, 7});
  CHECK(own.members(MeshAxis::kCp, 1) == Ranks{1, 3});
  CHECK(own.members(MeshAxis::kPp, 4) == Ranks{8, 12});
  CHECK(own.members(MeshAxis::kDp, 7) == Ranks{7, 15});
  CHECK(own.nodes_of_group(MeshAxis::kPp) == 1);
  CHECK(own.nodes_of_group(MeshAxis::kDp) == 2);
  const RankMap megatron(small(MeshOrder::kDpThenPp));
  CHECK(megatron.members(MeshAxis::kDp, 4) == Ranks{8, 12});
  CHECK(megatron.members(MeshAxis::kPp, 7) == Ranks{7, 15});
}

TEST_CASE("the ends of a pipeline share a tied embedding") {
  Config config = small(MeshOrder::kPpThenDp);
  config.model.tied_head = true;
  CHECK(RankMap(config).embedding_members(4) == Ranks{8, 12});
  CHECK(render_rank_map(config).find(
            "embedding: 8 groups of 2, first and last stage\n    0, 4\n") != std::string::npos);
  config.model.tied_head = false;
  CHECK(RankMap(config).embedding_members(4).empty());
  CHECK(render_rank_map(config).find("embedding") == std::string::npos);
}

TEST_CASE("every axis divides the world into equal groups whose members agree on the rest") {
  for (const MeshOrder order : {MeshOrder::kPpThenDp, MeshOrder::kDpThenPp}) {
    Config config = small(order);
    config.parallel.ep = 4;
    config.parallel.expert_tp = 1;
    const RankMap map(config);
    for (const MeshAxis axis : kMeshAxes) {
      CAPTURE(name(axis));
      std::set<std::int64_t> seen;
      for (std::int64_t group = 0; group < map.group_count(axis); ++group) {
        const Ranks ranks = map.members(axis, group);
        CHECK(std::is_sorted(ranks.begin(), ranks.end()));
        const RankPlace first = map.place(ranks.front());
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          const RankPlace place = map.place(ranks[i]);
          CHECK(place.pp == (axis == MeshAxis::kPp ? static_cast<std::int64_t>(i) : first.pp));
          if (axis == MeshAxis::kEp) CHECK(place.ep == static_cast<std::int64_t>(i));
          if (axis == MeshAxis::kDp) CHECK(place.tp == first.tp);
          if (axis == MeshAxis::kTp) CHECK(place.dp == first.dp);
          seen.insert(ranks[i]);
        }
      }
      CHECK(seen.size() == static_cast<std::size_t>(map.ranks()));
    }
  }
}

// Megatron-Core's parallel_state.py, "Let's say we have a total of 16 GPUs": tp 2, dp 4, pp 2.
TEST_CASE("expert groups take expert_tp ranks at a time") {
  Config config = small(MeshOrder::kDpThenPp);
  config.parallel.cp = 1;
  config.parallel.dp = 4;
  config.parallel.ep = 2;
  config.parallel.expert_tp = 2;
  CHECK(RankMap(config).members(MeshAxis::kEp, 0) == Ranks{0, 2});
  CHECK(RankMap(config).members(MeshAxis::kEp, 1) == Ranks{1, 3});
  CHECK(RankMap(config).members(MeshAxis::kEp, 2) == Ranks{4, 6});
  config.parallel.expert_tp = 1;
  CHECK(RankMap(config).members(MeshAxis::kEp, 1) == Ranks{2, 3});
}

TEST_CASE("a small world is printed rank by rank") {
  const std::string text = render_rank_map(small(MeshOrder::kPpThenDp));
  CAPTURE(text);
  CHECK(text.starts_with("  rank map, order tp-cp-pp-dp: 16 ranks on 2 nodes of 8\n"));
  CHECK(
      text.find("\n       13       1       5       2       1       1       0       1       0\n") !=
      std::string::npos);
  CHECK(text.find("  tp: 8 groups of 2, inside a node\n    0-1\n    2-3\n") != std::string::npos);
  CHECK(text.find("  dp: 8 groups of 2, over 2 nodes\n    0, 8\n") != std::string::npos);
  CHECK(text.find("ep:") == std::string::npos);
}

TEST_CASE("a large world is summarised") {
  Config config = small(MeshOrder::kPpThenDp);
  config.cluster.nodes = 2048;
  config.parallel.dp = 2048;
  const std::string text = render_rank_map(config);
  CHECK(std::count(text.begin(), text.end(), '\n') < 60);
  CHECK(text.find("16368 ranks on the nodes between") != std::string::npos);
  CHECK(text.find("0, 8, …, 16376 (every 8)") != std::string::npos);
  CHECK(text.find("8188 more") != std::string::npos);
}

TEST_CASE("rankfiles: one node, an allocation, named hosts, threads") {
  Config config = small(MeshOrder::kPpThenDp);
  const std::string allocation = open_mpi_rankfile(config, {});
  CHECK(allocation.starts_with("rank 0=+n0 slot=0\nrank 1=+n0 slot=1\n"));
  CHECK(allocation.ends_with("rank 15=+n1 slot=7\n"));
  CHECK(open_mpi_rankfile(config, {"a", "b"}).ends_with("rank 15=b slot=7\n"));
  config.parallel.dp = 1;
  config.cluster.nodes = 1;
  config.train.threads = 2;
  CHECK(open_mpi_rankfile(config, {}).ends_with("rank 7=localhost slot=14-15\n"));
}

TEST_CASE("the age of a calibration is that of its latest document") {
  const std::string source =
      "a.json, 2026-11-28T14:00:00Z, host h; b.json, 2026-11-29T14:00:00Z, host h";
  CHECK(measured_at(source) == "2026-11-29T14:00:00Z");
  constexpr std::time_t kThen = 1795960800;  // date -u -d 2026-11-29T14:00:00Z +%s
  CHECK(age_text(source, kThen + 60) == "1 minute old");
  CHECK(age_text(source, kThen + 3 * 3600) == "3 hours old");
  CHECK(age_text(source, kThen + 50 * 3600) == "2 days old");
  CHECK(age_text(source, kThen - 1).empty());
  CHECK(age_text("by hand", kThen).empty());
}

}  // namespace
}  // namespace nqd::planner
