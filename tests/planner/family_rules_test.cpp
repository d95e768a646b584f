// Rules of experts, number types, runtimes and the families that are not stacks of layers.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "planner/planner.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

// dp 4 · tp 2 on one node of eight, 16 experts, four ranks of ep.
Config experts() {
  Config config;
  config.model = gpt_model(4, 64, 8, 1000, 128);
  config.model.family = "moe";
  config.model.moe.experts = 16;
  config.model.moe.experts_per_token = 2;
  config.model.moe.expert_hidden = 256;
  config.cluster.gpus_per_node = 8;
  config.parallel.dp = 4;
  config.parallel.tp = 2;
  config.parallel.ep = 4;
  config.parallel.sequence_parallel = true;
  config.train.global_batch_size = 4;
  return config;
}

// An edsr on eight devices.
Config pictures() {
  Config config;
  config.model.family = "edsr";
  config.model.image = {48, 3, 0, 0, 64, 16, 2, 0, {}, {}};
  config.cluster.gpus_per_node = 8;
  config.parallel.dp = 8;
  config.train.global_batch_size = 8;
  return config;
}

using Change = std::function<void(Config&)>;

std::vector<Diagnostic> judged(Config config, const Change& change) {
  change(config);
  return check_mesh(config);
}

Diagnostic only(const Config& config, const Change& change) {
  const std::vector<Diagnostic> found = judged(config, change);
  std::string shown;
  for (const Diagnostic& d : found) shown += d.code + " " + d.message + "\n";
  INFO(shown);
  REQUIRE(found.size() == 1);
  return found[0];
}

void check_passes(const Config& config, const Change& change) {
  for (const Diagnostic& diagnostic : judged(config, change)) {
    CHECK_MESSAGE(false, diagnostic.message);
  }
}

TEST_CASE("experts on a legal mesh have no findings") {
  check_passes(experts(), [](Config&) {});
  check_passes(experts(), [](Config& c) {
    c.parallel.ep = 8;
    c.parallel.expert_tp = 1;
  });
}

TEST_CASE("NQD1234: ep needs experts") {
  const Diagnostic none = only(experts(), [](Config& c) {
    c.model.family = "llama";
    c.model.moe = {};
  });
  CHECK(none.code == "NQD1234");
  CHECK(none.message == "ep = 4 divides experts, but the model has none");
}

TEST_CASE("NQD1235 to NQD1237: the expert mesh") {
  const Diagnostic uneven = only(experts(), [](Config& c) { c.model.moe.experts = 18; });
  CHECK(uneven.code == "NQD1235");
  CHECK(uneven.message == "experts % ep = 18 % 4 = 2: every ep rank holds equally many experts");
  CHECK(uneven.hint == "legal values of ep here: 1, 2, 3, 6, 9, 18");
  const Diagnostic wide = only(experts(), [](Config& c) { c.parallel.ep = 8; });
  CHECK(wide.code == "NQD1236");
  CHECK(wide.message ==
        "ep·expert_tp = 8·2 = 16 does not divide the dp·cp·tp = 4·1·2 = 8 ranks of a stage");
  CHECK(wide.hint == "legal values of ep here: 1, 2, 4");
  const Diagnostic tensor = only(experts(), [](Config& c) { c.parallel.expert_tp = 4; });
  CHECK(tensor.code == "NQD1237");
  CHECK(tensor.hint == "legal values of expert_tp here: 1, 2");
}

TEST_CASE("NQD1239, NQD1240, NQD1258: shapes of experts") {
  const Diagnostic width = only(experts(), [](Config& c) { c.model.moe.expert_hidden = 255; });
  CHECK(width.code == "NQD1239");
  CHECK(width.message.starts_with("expert_hidden % expert_tp = 255 % 2 = 1: "));
  CHECK(only(experts(), [](Config& c) { c.model.moe.shared_expert_hidden = 33; }).path ==
        "model.moe.shared_expert_hidden");
  check_passes(experts(), [](Config& c) { c.model.moe.dense_layers = 3; });
  CHECK(only(experts(), [](Config& c) { c.model.moe.dense_layers = 4; }).code == "NQD1240");
  check_passes(experts(), [](Config& c) { c.model.moe.capacity_factor = 1; });
  CHECK(only(experts(), [](Config& c) { c.model.moe.capacity_factor = 0.5; }).severity ==
        Severity::kWarning);
}

TEST_CASE("NQD1254: ep beside tp needs sequence parallelism") {
  const Diagnostic d = only(experts(), [](Config& c) { c.parallel.sequence_parallel = false; });
  CHECK(d.code == "NQD1254");
  CHECK(d.hint == "set parallel.sequence_parallel to true");
  check_passes(experts(), [](Config& c) {
    c.parallel.sequence_parallel = false;
    c.parallel.ep = 1;
  });
}

TEST_CASE("NQD1251: latent attention") {
  const auto latent = [](Config& c) {
    c.model.mla = {0, 32, 16, 8, 16};
    c.model.kv_heads = c.model.heads;
  };
  check_passes(experts(), latent);
  CHECK(only(experts(), [&](Config& c) {
          latent(c);
          c.model.kv_heads = 2;
        }).code == "NQD1251");
}

TEST_CASE("NQD1221, NQD1222: a state model is not split or trained") {
  const Config state = state_config(8e9, Engine::kDdp, 16);
  check_passes(state, [](Config&) {});
  CHECK(only(state, [](Config& c) {
          c.parallel.tp = 2;
          c.parallel.dp = 8;
        }).path == "parallel.tp");
  CHECK(only(state, [](Config& c) {
          c.parallel.pp = 2;
          c.parallel.dp = 8;
        }).code == "NQD1221");
  CHECK(only(state, [](Config& c) { c.data.path = "runs/data"; }).code == "NQD1222");
}

TEST_CASE("NQD1221, NQD1230: other families are not split") {
  check_passes(pictures(), [](Config&) {});
  const Diagnostic tensor = only(pictures(), [](Config& c) {
    c.parallel.tp = 2;
    c.parallel.dp = 4;
  });
  CHECK(tensor.code == "NQD1221");
  CHECK(tensor.message == "an edsr model has no heads or layers to split, but tp = 2 and pp = 1");
  const Diagnostic context = only(pictures(), [](Config& c) {
    c.parallel.cp = 2;
    c.parallel.dp = 4;
  });
  CHECK(context.code == "NQD1230");
  CHECK(context.message ==
        "cp = 2 divides a sequence of tokens, which an edsr model does not have");
}

TEST_CASE("NQD1257: attention at sizes that levels have") {
  const auto unet = [](std::vector<std::int64_t> attention) {
    return [=](Config& c) {
      c.model.family = "unet";
      c.model.image = {128, 3, 0, 0, 64, 2, 0, 3, {1, 2, 4, 8}, attention};
    };
  };
  check_passes(pictures(), unet({16}));
  const Diagnostic away = only(pictures(), unet({32, 8}));
  CHECK(away.code == "NQD1257");
  CHECK(away.message == "attention_at names size 8, but the levels have the sizes 128, 64, 32, 16");
}

TEST_CASE("NQD1241 to NQD1244, NQD1255: number types") {
  const auto in = [](Precision weights, Precision gradients) {
    return [=](Config& c) {
      c.train.precision = weights;
      c.train.gradient_precision = gradients;
    };
  };
  check_passes(experts(), in(Precision::kBFloat16, Precision::kFloat32));
  const Diagnostic note = only(experts(), in(Precision::kFloat16, Precision::kFloat32));
  CHECK(note.code == "NQD1241");
  CHECK(note.severity == Severity::kNote);
  CHECK(only(experts(), in(Precision::kBFloat16, Precision::kFloat16)).code == "NQD1242");
  CHECK(only(experts(), in(Precision::kBFloat16, Precision::kFp8)).code == "NQD1243");
  check_passes(experts(), in(Precision::kFp8, Precision::kBFloat16));
  CHECK(only(experts(), [&](Config& c) {
          in(Precision::kFp8, Precision::kBFloat16)(c);
          c.cluster.device.fp8_speedup = 1;
        }).code == "NQD1244");
  const Diagnostic side = only(experts(), [&](Config& c) {
    in(Precision::kFp8, Precision::kBFloat16)(c);
    c.model.ffn_hidden = 240;
  });
  CHECK(side.code == "NQD1255");
  CHECK(side.message ==
        "ffn_hidden/tp = 240/2 = 120 is no multiple of 16, which 8-bit matrix products need");
  CHECK(side.hint == "set model.ffn_hidden to 224 or 256, or train.precision to bfloat16");
}

TEST_CASE("NQD1245 to NQD1247: recomputation") {
  const auto grouped = [](Recompute recompute, std::int64_t every) {
    return [=](Config& c) {
      c.train.recompute = recompute;
      c.train.recompute_every = every;
    };
  };
  check_passes(experts(), grouped(Recompute::kFull, 2));
  CHECK(only(experts(), grouped(Recompute::kNone, 2)).code == "NQD1245");
  const Diagnostic uneven = only(experts(), grouped(Recompute::kFull, 3));
  CHECK(uneven.code == "NQD1246");
  CHECK(uneven.hint == "legal values of recompute_every: 1, 2, 4");
  const Diagnostic gain = only(experts(), grouped(Recompute::kSelective, 1));
  CHECK(gain.code == "NQD1247");
  CHECK(gain.severity == Severity::kNote);
  check_passes(experts(), [&](Config& c) {
    grouped(Recompute::kSelective, 1)(c);
    c.train.attention = Attention::kMaterialised;
  });
}

TEST_CASE("NQD1219, NQD1220: schedule of the learning rate") {
  check_passes(experts(), [](Config& c) { c.train.optimizer.warmup_steps = c.train.steps; });
  CHECK(only(experts(), [](Config& c) {
          c.train.optimizer.warmup_steps = c.train.steps + 1;
        }).code == "NQD1219");
  check_passes(experts(), [](Config& c) {
    c.train.optimizer.min_learning_rate = c.train.optimizer.learning_rate;
  });
  CHECK(only(experts(), [](Config& c) {
          c.train.optimizer.min_learning_rate = c.train.optimizer.learning_rate * 2;
        }).code == "NQD1220");
}

TEST_CASE("NQD1268: a roll-back needs generations") {
  const auto guarded = [](std::int64_t every, double every_s) {
    return [=](Config& c) {
      c.guard.roll_back = true;
      c.checkpoint.every = every;
      c.checkpoint.every_s = every_s;
    };
  };
  CHECK(only(experts(), guarded(0, 0)).code == "NQD1268");
  check_passes(experts(), guarded(1, 0));
  check_passes(experts(), guarded(0, 60));
}

TEST_CASE("NQD1248 to NQD1250: what engines and runtimes have") {
  const auto run = [](Runtime runtime, Engine engine, std::int64_t pp) {
    return [=](Config& c) {
      c.train.runtime = runtime;
      c.parallel.engine = engine;
      c.parallel.pp = pp;
      c.parallel.dp = 4 / pp;
    };
  };
  CHECK(only(experts(), [](Config& c) { c.train.optimizer.offload = true; }).code == "NQD1248");
  check_passes(experts(), [](Config& c) {
    c.train.optimizer.offload = true;
    c.parallel.engine = Engine::kZero1;
  });
  check_passes(experts(), run(Runtime::kFsdp2, Engine::kZero3, 1));
  CHECK(only(experts(), run(Runtime::kFsdp2, Engine::kZero1, 1)).code == "NQD1249");
  check_passes(experts(), [&](Config& c) {
    run(Runtime::kDeepSpeed, Engine::kZero1, 2)(c);
    c.parallel.ep = 2;
  });
  CHECK(only(experts(), [&](Config& c) {
          run(Runtime::kDeepSpeed, Engine::kZero2, 2)(c);
          c.parallel.ep = 2;
        }).code == "NQD1250");
}

}  // namespace
}  // namespace nqd::planner
