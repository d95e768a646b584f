// Sizes that no number of ranks divides, and buckets at their edges.
#include <doctest/doctest.h>

#include "planner/config/config.h"
#include "planner/layout/layout.h"
#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;

// deepspeedai/DeepSpeed PR#1380, #1422, #202, #836, #8158 (padding with a wrong stride or in the
// export), pytorch/torchtitan#1136 (uneven shards of the vocabulary).
TEST_CASE("prime extents on 2, 3 and 4 ranks: the weights of one rank, whole") {
  Config config = bugs::tiny_gpt();
  config.model.layers = 2;
  config.model.hidden = 7;
  config.model.heads = config.model.kv_heads = 1;
  config.model.head_dim = 7;
  config.model.ffn_hidden = 13;
  config.model.vocab = 101;
  config.model.sequence = 5;
  const engine::ParityRun reference = bugs::run(config);
  for (const planner::TensorSpec& tensor : planner::parameters(config.model)) {
    CHECK(reference.weights.at(tensor.name).size() == static_cast<std::size_t>(tensor.elements()));
  }
  for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    for (const std::int64_t dp : {2, 3, 4}) {
      const Config here = bugs::on(config, {.dp = dp, .engine = engine});
      INFO(bugs::words(here));
      const engine::ParityRun found = bugs::run(here);
      bugs::check_same(found, reference);
      CHECK(found.weights == reference.weights);
    }
  }
  bugs::check_same(bugs::run(bugs::on(config, {.dp = 4, .engine = Engine::kHsdp, .hsdp_shard = 2})),
                   reference);
}

// deepspeedai/DeepSpeed PR#4321 (a parameter as large as the bucket is never reduced),
// pytorch#48576 (the cut of the buckets is in the bits).
TEST_CASE("buckets one element short of a layer or the model, exactly as large, one too large") {
  Config config = bugs::tiny_gpt();
  const std::int64_t whole = planner::parameter_count(config.model);
  std::int64_t layer = 0;
  for (const auto& tensor : planner::unit_tensors(config.model, planner::UnitKind::kDense)) {
    layer += tensor.elements();
  }
  const engine::ParityRun reference = bugs::run(config);
  for (const std::int64_t elements : {layer, 2 * layer, whole}) {
    for (const std::int64_t more : {-1, 0, 1}) {
      config.train.bucket_bytes = 4 * (elements + more);
      CAPTURE(config.train.bucket_bytes);
      bugs::check_same(bugs::run(bugs::on(config, {.dp = 2})), reference);
    }
  }
  config.train.bucket_bytes = 1;
  bugs::check_same(bugs::run(bugs::on(config, {.dp = 3})), reference);
}

// deepspeedai/DeepSpeed#8260 (a bucket of nothing is accepted, then divided by).
TEST_CASE("a bucket of nothing is refused where it is written") {
  const std::string path = std::string(NQD_SOURCE_DIR) + "/configs/parity/gpt-tied.yaml";
  for (const char* bytes : {"0", "-1"}) {
    const planner::LoadedConfig loaded =
        planner::load_config(path, {{std::string("train.bucket_bytes=") + bytes}, ""});
    REQUIRE(loaded.diagnostics.size() == 1);
    CHECK(loaded.diagnostics.front().severity == Severity::kError);
    CHECK(loaded.diagnostics.front().message.find("bucket_bytes") != std::string::npos);
  }
}
