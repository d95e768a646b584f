#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "planner/reference/reference_plan.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

std::string refused(const std::function<void(Config&)>& change) {
  Config config = cpu_config(1);
  config.model = gpt_model(4, 16, 4, 97, 8);
  config.model.kv_heads = 4;
  config.model.head_dim = 4;
  config.numerics.mode = collectives::Numerics::kCanonical;
  change(config);
  const std::optional<EngineRefusal> refusal = engine_refusal(config);
  return refusal ? refusal->what : "";
}

TEST_CASE("every mesh, engine, schedule, recomputation and 16-bit type of a dense decoder runs") {
  CHECK(refused([](Config&) {}) == "");
  for (const Engine engine :
       {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3, Engine::kHsdp}) {
    for (const Precision precision :
         {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16}) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        CHECK(refused([&](Config& c) {
                c.parallel.engine = engine;
                c.parallel.tp = c.parallel.pp = c.parallel.dp = 2;
                c.parallel.sequence_parallel = true;
                c.train.precision = precision;
                c.train.recompute = recompute;
                c.train.optimizer.kind = OptimizerKind::kSgdMomentum;
              }) == "");
      }
    }
  }
  CHECK(refused([](Config& c) { c.model.family = "llama"; }) == "");
  CHECK(refused([](Config& c) {
          c.model.family = "timeseries";
          c.model.causal = c.model.tied_head = false;
          c.model.input_features = 3;
          c.model.output_features = 5;
        }) == "");
}

TEST_CASE("what does not run says why") {
  CHECK(refused([](Config& c) { c.model.family = "vit"; }) == "model family `vit`");
  CHECK(refused([](Config& c) { c.model.mla.kv_lora_rank = 8; }) == "latent attention");
  CHECK(refused([](Config& c) { c.model.qk_norm = true; }) == "norms on queries and keys");
  CHECK(refused([](Config& c) { c.model.causal = false; }) == "attention that is not causal");
  CHECK(refused([](Config& c) {
          c.model.family = "timeseries";
          c.model.input_features = 3;
        }) == "an encoder with a tied head");
  CHECK(refused([](Config& c) { c.parallel.cp = 2; }) == "context parallelism");
  CHECK(refused([](Config& c) { c.train.precision = Precision::kFp8; }) == "precision `fp8`");
  CHECK(refused([](Config& c) { c.train.runtime = Runtime::kMegatron; }) ==
        "the runtime `megatron`");
  CHECK(refused([](Config& c) { c.train.optimizer.offload = true; }) == "an offloaded optimizer");
  CHECK(refused([](Config& c) { c.cluster.preset = "h100-sxm"; }) ==
        "a plan for cluster `h100-sxm`: its ranks are CPU cores here");
  CHECK(refused([](Config& c) {
          c.cluster.preset.clear();
          c.cluster.peak_flops = 989e12;
        }) == "a plan for a cluster with a stated device peak: its ranks are CPU cores here");
  CHECK(refused([](Config& c) { c.parallel.tp = 8; }) == "tp = 8 with kv_heads = 4");
  CHECK(refused([](Config& c) {
          c.model.kv_heads = 2;
          c.parallel.tp = 4;
        }) == "tp = 4 with kv_heads = 2");
  CHECK(refused([](Config& c) { c.parallel.dp = 2048; }) == "more than 1024 ranks");
}

TEST_CASE("canonical slices that tp cannot share are refused, and run in fast numerics") {
  const auto six = [](Config& c) {
    c.parallel.tp = 2;
    c.numerics.tp_slices = 6;
  };
  CHECK(refused(six) == "tp = 2 with numerics.tp_slices = 6 in canonical numerics (NQD1263)");
  CHECK(refused([&](Config& c) {
          six(c);
          c.numerics.mode = collectives::Numerics::kFast;
        }) == "");
  CHECK(refused([&](Config& c) {
          six(c);
          c.parallel.tp = 1;
        }) == "");
  // Twelve rows make no eight equal blocks.
  CHECK(refused([](Config& c) {
          c.parallel.tp = 2;
          c.parallel.sequence_parallel = true;
          c.train.micro_batch_size = 1;
          c.model.sequence = 12;
        }) == "tp = 2 with numerics.tp_slices = 8 in canonical numerics (NQD1263)");
}

}  // namespace
}  // namespace nqd::planner
