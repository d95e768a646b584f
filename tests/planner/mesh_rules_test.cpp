// Each rule at its edge: the legal neighbour passes, the illegal one fails with its arithmetic.
// The rules of model families and experts are in family_rules_test.cpp.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "planner/planner.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

// dp 2 · tp 4 · pp 2 on two nodes of eight, one micro-batch a step and pipeline.
Config legal() {
  Config config;
  config.model = gpt_model(16, 64, 8, 1000, 128);
  config.cluster.nodes = 2;
  config.cluster.gpus_per_node = 8;
  config.parallel.dp = 2;
  config.parallel.tp = 4;
  config.parallel.pp = 2;
  config.parallel.world_size = 16;
  config.train.micro_batch_size = 3;
  config.train.global_batch_size = 24;
  return config;
}

using Change = std::function<void(Config&)>;

std::vector<Diagnostic> judged(const Change& change) {
  Config config = legal();
  change(config);
  return check_mesh(config);
}

Diagnostic only(const Change& change) {
  const std::vector<Diagnostic> found = judged(change);
  std::string shown;
  for (const Diagnostic& d : found) shown += d.code + " " + d.message + "\n";
  INFO(shown);
  REQUIRE(found.size() == 1);
  return found[0];
}

void check_passes(const Change& change) {
  for (const Diagnostic& diagnostic : judged(change)) CHECK_MESSAGE(false, diagnostic.message);
}

TEST_CASE("a legal mesh has no findings") {
  check_passes([](Config&) {});
  check_passes([](Config& c) { c.parallel.world_size.reset(); });
}

TEST_CASE("NQD1201: the mesh and world_size") {
  const Diagnostic d = only([](Config& c) { c.parallel.world_size = 24; });
  CHECK(d.code == "NQD1201");
  CHECK(d.path == "parallel.world_size");
  CHECK(d.message == "dp·tp·pp = 2·4·2 = 16, but world_size = 24");
  CHECK(d.hint == "set parallel.dp to 3, or parallel.world_size to 16");
  REQUIRE(d.related.size() == 3);
  CHECK(d.related[0].where.file == "parallel.dp");
  CHECK(d.related[0].message == "dp = 2");
  CHECK(only([](Config& c) { c.parallel.world_size = 20; }).hint ==
        "set parallel.world_size to 16; no dp fits: tp·pp = 8 does not divide 20");
}

TEST_CASE("NQD1202: the mesh and the cluster's devices") {
  const Diagnostic d = only([](Config& c) { c.cluster.nodes = 3; });
  CHECK(d.code == "NQD1202");
  CHECK(d.message == "dp·tp·pp = 2·4·2 = 16, but the cluster has 3·8 = 24 devices");
  CHECK(d.hint == "set parallel.dp to 3, or cluster.nodes to 2");
}

TEST_CASE("NQD1203: tp stays inside a node") {
  const Diagnostic d = only([](Config& c) {
    c.cluster.nodes = 8;
    c.cluster.gpus_per_node = 2;
  });
  CHECK(d.code == "NQD1203");
  CHECK(d.hint == "legal values of tp here: 1, 2");
}

TEST_CASE("NQD1203, NQD1229: a rack may be one NVLink domain") {
  const auto rack = [](std::int64_t domain) {
    return [=](Config& c) {
      c.cluster.nodes = 4;
      c.cluster.gpus_per_node = 4;
      c.cluster.nvlink_domain = domain;
      c.parallel.tp = 8;
      c.parallel.dp = 1;
      c.model.vocab = 1000;
    };
  };
  check_passes(rack(8));
  check_passes(rack(16));
  const Diagnostic narrow = only(rack(4));
  CHECK(narrow.code == "NQD1203");
  CHECK(narrow.message ==
        "tp = 8 does not divide nvlink_domain = 4: a tensor-parallel group must lie inside one "
        "NVLink domain");
  const Diagnostic odd = only([](Config& c) { c.cluster.nvlink_domain = 12; });
  CHECK(odd.code == "NQD1229");
  CHECK(odd.hint == "set cluster.nvlink_domain to 8 or 16");
}

TEST_CASE("NQD1201 names cp once there is one") {
  const Diagnostic d = only([](Config& c) { c.parallel.cp = 2; });
  CHECK(d.code == "NQD1201");
  CHECK(d.message == "dp·tp·cp·pp = 2·4·2·2 = 32, but world_size = 16");
  CHECK(d.hint == "set parallel.dp to 1, or parallel.world_size to 32");
}

TEST_CASE("NQD1231, NQD1213: sequences over cp, and over cp and tp") {
  const auto over = [](std::int64_t sequence, bool causal) {
    return [=](Config& c) {
      c.parallel.cp = 4;
      c.parallel.dp = 1;
      c.parallel.world_size = 32;
      c.cluster.nodes = 4;
      c.model.sequence = sequence;
      c.model.causal = causal;
      c.parallel.sequence_parallel = sequence == 1000 || sequence == 1008;
    };
  };
  check_passes(over(128, true));
  check_passes(over(4, false));
  const Diagnostic causal = only(over(132, true));
  CHECK(causal.code == "NQD1231");
  CHECK(causal.message.starts_with("sequence % (2·cp) = 132 % 8 = 4: "));
  CHECK(causal.hint == "set model.sequence to 128 or 136");
  CHECK(only(over(130, false)).message ==
        "sequence % cp = 130 % 4 = 2: cp ranks hold equal parts of a sequence");
  check_passes(over(1008, true));
  const Diagnostic cut = only(over(1000, true));
  CHECK(cut.code == "NQD1213");
  CHECK(cut.message ==
        "sequence % (cp·tp) = 1000 % 16 = 8: sequence_parallel cuts the part of a cp rank into tp "
        "parts");
  CHECK(cut.hint == "set model.sequence to 992 or 1008");
}

TEST_CASE("NQD1225, NQD1226: kv heads") {
  for (const std::int64_t kv : {1, 2, 4, 8}) {
    check_passes([=](Config& c) { c.model.kv_heads = kv; });
  }
  const Diagnostic split = only([](Config& c) {
    c.model.heads = 24;
    c.model.hidden = 48;
    c.model.ffn_hidden = 192;
    c.model.kv_heads = 6;
  });
  CHECK(split.code == "NQD1225");
  CHECK(split.message ==
        "kv_heads = 6 is neither a multiple nor a divisor of tp = 4: a rank holds whole key and "
        "value heads, or whole ranks share one");
  CHECK(split.hint == "legal values of tp here: 1, 2");
  const Diagnostic group = only([](Config& c) {
    c.parallel.tp = 1;
    c.parallel.dp = 8;
    c.model.kv_heads = 3;
  });
  CHECK(group.code == "NQD1226");
  CHECK(group.hint == "set model.kv_heads to one of 1, 2, 4, 8");
}

TEST_CASE("NQD1205, NQD1260: a head_dim of its own") {
  check_passes([](Config& c) {
    c.model.hidden = 60;
    c.model.head_dim = 16;
  });
  const Diagnostic odd = only([](Config& c) {
    c.model.head_dim = 15;
    c.model.positions = Positions::kRotary;
  });
  CHECK(odd.code == "NQD1260");
  CHECK(odd.hint == "set model.head_dim to 16, or model.positions to learned");
}

TEST_CASE("NQD1228: MLP columns") {
  const Diagnostic d = only([](Config& c) { c.model.ffn_hidden = 258; });
  CHECK(d.code == "NQD1228");
  CHECK(d.hint == "set model.ffn_hidden to 256 or 260");
}

TEST_CASE("NQD1204, NQD1205: heads") {
  const Diagnostic split = only([](Config& c) {
    c.model.heads = 2;
    c.model.vocab = 1001;  // whether it is padded does not matter while tp is illegal
  });
  CHECK(split.code == "NQD1204");
  CHECK(split.message == "heads % tp = 2 % 4 = 2: every tp rank needs whole heads");
  CHECK(split.hint == "legal values of tp here: 1, 2");
  const Diagnostic size = only([](Config& c) { c.model.heads = 12; });
  CHECK(size.code == "NQD1205");
  CHECK(size.message == "hidden % heads = 64 % 12 = 4: all heads have the same size");
  CHECK(size.hint ==
        "set model.hidden to 60 or 72, or model.heads to one of 1, 2, 4, 8, 16, 32, 64");
}

TEST_CASE("NQD1206 to NQD1208: layers over stages") {
  const Diagnostic even = only([](Config& c) { c.model.layers = 15; });
  CHECK(even.code == "NQD1206");
  CHECK(even.message == "layers % (pp·vpp) = 15 % (2·1) = 1: the stages cannot be equal");
  check_passes([](Config& c) {
    c.model.layers = 15;
    c.parallel.pipeline_split = {7, 8};
  });
  const Diagnostic length = only([](Config& c) { c.parallel.pipeline_split = {8, 4, 4}; });
  CHECK(length.code == "NQD1207");
  CHECK(length.message == "pipeline_split has 3 entries, but pp·vpp = 2·1 = 2 stages");
  const Diagnostic sum = only([](Config& c) { c.parallel.pipeline_split = {8, 9}; });
  CHECK(sum.code == "NQD1208");
  CHECK(sum.message == "pipeline_split places 17 layers, but the model has 16");
}

// Megatron-LM issue 468: 80 layers over pp 16 and vpp 2 pass its checks and train 64.
TEST_CASE("NQD1227: layers that would be dropped without a word") {
  const auto deep = [](Config& c) {
    c.model.layers = 80;
    c.parallel.pp = 16;
    c.parallel.tp = 1;
    c.parallel.dp = 1;
    c.parallel.vpp = 2;
    c.parallel.schedule = Schedule::kInterleaved;
    c.train.global_batch_size = 48;
  };
  const Diagnostic d = only(deep);
  CHECK(d.code == "NQD1227");
  CHECK(d.path == "parallel.vpp");
  CHECK(d.message ==
        "the 80/16 = 5 layers of a rank do not make vpp = 2 equal virtual stages: a launcher that "
        "rounds down trains 16·2·2 = 64 of 80 layers, without a word");
  CHECK(d.hint == "legal values of vpp here: 1, 5; or give parallel.pipeline_split");
  check_passes([&](Config& c) {
    deep(c);
    c.parallel.vpp = 5;
  });
}

TEST_CASE("NQD1209: batch arithmetic") {
  const Diagnostic d = only([](Config& c) { c.train.global_batch_size = 20; });
  CHECK(d.code == "NQD1209");
  CHECK(d.message == "global_batch_size % (micro_batch_size·dp) = 20 % (3·2) = 2");
  CHECK(d.hint ==
        "the nearest legal global_batch_size is 18 or 24; to keep the batch, set "
        "train.micro_batch_size to 2");
  CHECK(only([](Config& c) { c.train.global_batch_size = 5; }).hint ==
        "the nearest legal global_batch_size is 6; to keep the batch, set parallel.dp to 1 (on as "
        "many ranks as then fit) and train.micro_batch_size to 1");
}

void interleave(Config& c) {
  c.parallel.vpp = 2;
  c.parallel.schedule = Schedule::kInterleaved;
}

void flatten(Config& c) {
  c.parallel.pp = 1;
  c.parallel.dp = 4;
}

TEST_CASE("NQD1210, NQD1211, NQD1223: interleaving") {
  check_passes(interleave);
  CHECK(only([](Config& c) {
          interleave(c);
          flatten(c);
        }).code == "NQD1210");
  const Diagnostic remainder = only([](Config& c) {
    interleave(c);
    c.train.global_batch_size = 18;
  });
  CHECK(remainder.code == "NQD1211");
  CHECK(remainder.message ==
        "the interleaved schedule needs micro-batches in multiples of pp, but m = 18/(3·2) = 3 and "
        "pp = 2");
  CHECK(remainder.hint == "the nearest legal global_batch_size is 12 or 24");
  CHECK(only([](Config& c) { c.parallel.schedule = Schedule::kInterleaved; }).code == "NQD1223");
  CHECK(only([](Config& c) { c.parallel.vpp = 2; }).code == "NQD1223");
}

TEST_CASE("NQD1223, NQD1232: zero-bubble schedules") {
  for (const Schedule schedule : {Schedule::kZbH1, Schedule::kZbH2}) {
    check_passes([=](Config& c) { c.parallel.schedule = schedule; });
    CHECK(only([=](Config& c) {
            flatten(c);
            c.parallel.schedule = schedule;
          }).code == "NQD1232");
  }
  check_passes([](Config& c) {
    c.parallel.schedule = Schedule::kZbV;
    c.parallel.vpp = 2;
  });
  const Diagnostic flat = only([](Config& c) { c.parallel.schedule = Schedule::kZbV; });
  CHECK(flat.code == "NQD1223");
  CHECK(flat.message == "the schedule zb-v needs vpp = 2, the two arms of its V, but vpp = 1");
  CHECK(only([](Config& c) {
          c.parallel.schedule = Schedule::kZbV;
          c.parallel.vpp = 4;
        }).hint == "set parallel.vpp to 2");
}

TEST_CASE("NQD1212, NQD1213: sequence parallelism") {
  check_passes([](Config& c) { c.parallel.sequence_parallel = true; });
  const Diagnostic uneven = only([](Config& c) {
    c.parallel.sequence_parallel = true;
    c.model.sequence = 130;
  });
  CHECK(uneven.code == "NQD1213");
  CHECK(uneven.hint == "set model.sequence to 128 or 132");
  CHECK(only([](Config& c) {
          c.parallel.sequence_parallel = true;
          c.parallel.tp = 1;
          c.parallel.dp = 8;
        }).code == "NQD1212");
}

TEST_CASE("NQD1214: a vocabulary that tp does not divide is padded, and said so") {
  const Diagnostic d = only([](Config& c) { c.model.vocab = 50257; });
  CHECK(d.code == "NQD1214");
  CHECK(d.severity == Severity::kWarning);
  CHECK(d.message == "vocab = 50257 is padded to 50260, a multiple of tp = 4");
}

TEST_CASE("NQD1215 to NQD1217: shard groups") {
  const auto sharded = [](std::int64_t dp, std::int64_t shard) {
    return [=](Config& c) {
      c.parallel = {};
      c.parallel.engine = Engine::kHsdp;
      c.parallel.dp = dp;
      c.parallel.hsdp_shard = shard;
      c.cluster.nodes = dp / 8;
      c.train.global_batch_size = c.train.micro_batch_size * dp;
    };
  };
  check_passes(sharded(16, 8));
  const Diagnostic uneven = only(sharded(16, 6));
  CHECK(uneven.code == "NQD1215");
  CHECK(uneven.hint == "legal values of hsdp_shard: 2, 4, 8");
  const Diagnostic wide = only(sharded(32, 16));
  CHECK(wide.code == "NQD1216");
  CHECK(wide.severity == Severity::kWarning);
  const Diagnostic beside_tp = only([&](Config& c) {
    sharded(16, 8)(c);
    c.parallel.tp = 2;
    c.cluster.nodes = 4;
  });
  CHECK(beside_tp.code == "NQD1216");
  CHECK(beside_tp.hint == "set parallel.hsdp_shard to 4");
  CHECK(only([&](Config& c) {
          sharded(16, 8)(c);
          c.parallel.engine = Engine::kZero3;
        }).code == "NQD1217");
}

TEST_CASE("NQD1218: sharded gradients beside a pipeline are a warning") {
  for (const Engine engine : {Engine::kZero2, Engine::kZero3}) {
    const Diagnostic d = only([&](Config& c) { c.parallel.engine = engine; });
    CHECK(d.code == "NQD1218");
    CHECK(d.severity == Severity::kWarning);
  }
  check_passes([](Config& c) { c.parallel.engine = Engine::kZero1; });
  check_passes([](Config& c) {
    c.parallel.engine = Engine::kZero3;
    flatten(c);
  });
}

TEST_CASE("NQD1224: the largest mesh") {
  const auto ranks = [](std::int64_t nodes) {
    return [=](Config& c) {
      c.parallel = {};
      c.parallel.dp = nodes * 8;
      c.cluster.nodes = nodes;
      c.train.global_batch_size = c.train.micro_batch_size * c.parallel.dp;
    };
  };
  check_passes(ranks(131'072));
  CHECK(only(ranks(131'073)).code == "NQD1224");
}

TEST_CASE("several violations come in the order of the rules") {
  const std::vector<Diagnostic> found = judged([](Config& c) {
    c.parallel.world_size = 15;
    c.model.heads = 6;
    c.train.global_batch_size = 25;
  });
  std::vector<std::string> codes;
  for (const Diagnostic& diagnostic : found) codes.push_back(diagnostic.code);
  CHECK(codes == std::vector<std::string>{"NQD1201", "NQD1204", "NQD1205", "NQD1209"});
}

}  // namespace
}  // namespace nqd::planner
