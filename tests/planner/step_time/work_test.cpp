#include "planner/reference/work.h"

#include <doctest/doctest.h>

#include "planner/models/shape.h"
#include "planner/reference/traffic.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

Config gpt(std::int64_t micro_batches = 1) {
  Config config = cpu_config(1);
  config.train.global_batch_size = config.train.micro_batch_size * micro_batches;
  return config;
}

// Grouped queries, gated, rotary, an own head, no biases.
Config llama() {
  Config config = gpt();
  ModelSpec& model = config.model;
  model.family = "llama";
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.gated_mlp = true;
  model.norm = Norm::kRmsNorm;
  model.positions = Positions::kRotary;
  model.bias = model.qkv_bias = model.tied_head = false;
  return config;
}

UnitWork work_of(const Config& config, std::size_t stage = 0) {
  return chunk_work(config, reference_stages(config)[stage].units);
}

double units_of(const std::vector<KernelCall>& calls, Kernel from, Kernel to) {
  double units = 0;
  for (const KernelCall& call : calls) {
    if (call.kernel >= from && call.kernel <= to) units += call.calls * cost_of(call).units;
  }
  return units;
}

double operations(const std::vector<KernelCall>& calls) {
  return units_of(calls, Kernel::kForwardProduct, Kernel::kFreshProduct);
}

double count(const std::vector<KernelCall>& calls, Kernel kernel) {
  double calls_of = 0;
  for (const KernelCall& call : calls) calls_of += call.kernel == kernel ? call.calls : 0;
  return calls_of;
}

TEST_CASE("the products are those that MFU counts, a forward and two backwards") {
  for (const Config& config : {gpt(), llama()}) {
    const double forward =
        2 * forward_flops(model_shape(config.model, config.train)).matmul;  // two sequences
    const UnitWork work = work_of(config);
    CHECK(operations(work.forward) == doctest::Approx(forward));
    CHECK(operations(work.backward_input) == doctest::Approx(forward));
    CHECK(operations(work.backward_weight) == doctest::Approx(forward));
  }
}

TEST_CASE("a tensor-parallel rank has its share of products, attention and activations") {
  for (const auto mode : {collectives::Numerics::kFast, collectives::Numerics::kCanonical}) {
    Config whole = gpt();
    whole.model.vocab = 96;
    whole.numerics = {mode, 2};
    Config half = whole;
    half.parallel.tp = half.cluster.gpus_per_node = 2;
    const UnitWork all = work_of(whole);
    const UnitWork part = work_of(half);
    CHECK(2 * operations(part.forward) == operations(all.forward));
    CHECK(2 * operations(part.backward_input) == operations(all.backward_input));
    CHECK(2 * operations(part.backward_weight) == operations(all.backward_weight));
    CHECK(2 * units_of(part.forward, Kernel::kAttention, Kernel::kAttention) ==
          units_of(all.forward, Kernel::kAttention, Kernel::kAttention));
    CHECK(2 * units_of(part.forward, Kernel::kGelu, Kernel::kGelu) ==
          units_of(all.forward, Kernel::kGelu, Kernel::kGelu));
    // Every rank works on all rows of the norms, unless sequence parallelism divides them.
    CHECK(units_of(part.forward, Kernel::kLayerNorm, Kernel::kLayerNorm) ==
          units_of(all.forward, Kernel::kLayerNorm, Kernel::kLayerNorm));
    half.parallel.sequence_parallel = true;
    CHECK(2 * units_of(work_of(half).forward, Kernel::kLayerNorm, Kernel::kLayerNorm) ==
          units_of(all.forward, Kernel::kLayerNorm, Kernel::kLayerNorm));
  }
}

TEST_CASE("full recomputation adds a forward of the layers, but for a product a group") {
  Config config = gpt();
  const UnitWork plain = work_of(config);
  config.train.recompute = Recompute::kFull;
  for (const std::int64_t every : {1, 2, 3}) {
    config.train.recompute_every = every;
    const UnitWork again = work_of(config);
    const double rows = 2 * 24, h = 16, layers = 3;
    const double groups = every == 1 ? 3 : every == 2 ? 2 : 1;
    const double more = 2 * rows * (layers * 12 * h * h - groups * 4 * h * h);
    CHECK(operations(again.backward_input) - operations(plain.backward_input) ==
          doctest::Approx(more));
    CHECK(count(again.backward_input, Kernel::kAttention) == layers);
    CHECK(again.forward == plain.forward);
    CHECK(again.backward_weight == plain.backward_weight);
  }
  config.train.recompute = Recompute::kSelective;
  const UnitWork selective = work_of(config);
  CHECK(count(selective.backward_input, Kernel::kAttention) == 3);
  CHECK(operations(selective.backward_input) == operations(plain.backward_input));
}

TEST_CASE("additions of micro-batches") {
  const auto additions = [](Config config, std::int64_t m, collectives::Numerics mode) {
    config.train.global_batch_size = config.train.micro_batch_size * config.parallel.dp * m;
    config.numerics.mode = mode;
    return additions_of(config);
  };
  // The tree over four leaves begins two sums; over three the ragged third joins the first.
  const Additions four = additions(gpt(), 4, collectives::Numerics::kCanonical);
  CHECK(four.all == 4);
  CHECK(four.first == 2);
  const Additions three = additions(gpt(), 3, collectives::Numerics::kCanonical);
  CHECK(three.all == 3);
  CHECK(three.first == 1);
  CHECK(additions(gpt(), 4, collectives::Numerics::kFast).first == 1);
  // Shards on three ranks, no power of two: every rank's leaf is an addition of its own.
  Config sharded = cpu_config(3);
  sharded.parallel.engine = Engine::kZero2;
  CHECK(additions(sharded, 2, collectives::Numerics::kCanonical).all == 6);
}

TEST_CASE("what the store does for gradients") {
  Config config = gpt(4);
  const double phi = [&] {
    double elements = 0;
    for (const LocalUnit& unit : reference_stages(config)[0].units) {
      elements += static_cast<double>(unit.elements);
    }
    return elements;
  }();
  const auto store = [](const Config& c, Kernel kernel) {
    return units_of(work_of(c).backward_weight, kernel, kernel);
  };
  // Embeddings and final norm; of the layers their vectors alone, since fresh products write the
  // matrices.
  const double filled = (97 + 24 + 2) * 16 + 3 * 13 * 16;
  const auto fresh = [](const Config& c) {
    return count(work_of(c).backward_weight, Kernel::kFreshProduct);
  };
  // Fast: the first of four micro-batches finds nothing, the others add in place.
  CHECK(store(config, Kernel::kFill) == filled / 4);
  CHECK(store(config, Kernel::kAdd) == 0);
  CHECK(fresh(config) == 3);
  CHECK(count(work_of(config).backward_weight, Kernel::kWeightProduct) == 9 + 1);
  // Canonical: every leaf is new, two of four are added; a tied head has a unit of its own.
  config.numerics.mode = collectives::Numerics::kCanonical;
  const double with_tied = phi + 97 * 16;
  CHECK(store(config, Kernel::kFill) == filled + 97 * 16);
  CHECK(store(config, Kernel::kAdd) == with_tied / 2);
  CHECK(fresh(config) == 12);
  // zero2 adds the sums of a micro-batch's shards.
  config.parallel.engine = Engine::kZero2;
  config.parallel.dp = config.cluster.gpus_per_node = 2;
  config.train.global_batch_size *= 2;
  CHECK(store(config, Kernel::kFill) == filled + 97 * 16);
  CHECK(store(config, Kernel::kAdd) == with_tied / 2 / 2);
  CHECK(fresh(config) == 12);
}

TEST_CASE("the update is of the rank's part") {
  Config config = cpu_config(2);
  const auto update = [&](Engine engine, Kernel kernel) {
    config.parallel.engine = engine;
    return units_of(update_work(config, reference_stages(config)[0].units), kernel, kernel);
  };
  const double all = update(Engine::kDdp, Kernel::kAdamw);
  for (const Engine engine : {Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    CHECK(2 * update(engine, Kernel::kAdamw) == all);
    CHECK(2 * update(engine, Kernel::kSquares) == all);
  }
  CHECK(2 * update(Engine::kDdp, Kernel::kSquares) == all);
  CHECK(update(Engine::kDdp, Kernel::kNarrow) == 0);
  config.train.precision = Precision::kBFloat16;
  CHECK(update(Engine::kDdp, Kernel::kNarrow) == all);
  config.train.optimizer.kind = OptimizerKind::kSgd;
  CHECK(update(Engine::kDdp, Kernel::kAdamw) == 0);
  CHECK(update(Engine::kDdp, Kernel::kSgd) == all);
}

TEST_CASE("each model has the kernels of its own kind") {
  const UnitWork plain = work_of(gpt());
  CHECK(count(plain.forward, Kernel::kLayerNorm) == 7);
  CHECK(count(plain.forward, Kernel::kGelu) == 3);
  CHECK(count(plain.forward, Kernel::kCopy) == 6);
  CHECK(count(plain.forward, Kernel::kRotary) == 0);
  CHECK(count(plain.backward_weight, Kernel::kColumnSums) == 6);
  const UnitWork gated = work_of(llama());
  CHECK(count(gated.forward, Kernel::kRmsNorm) == 7);
  CHECK(count(gated.forward, Kernel::kSwiglu) == 3);
  CHECK(count(gated.forward, Kernel::kCopy) == 0);
  CHECK(count(gated.forward, Kernel::kRotary) == 3);
  CHECK(count(gated.backward_weight, Kernel::kColumnSums) == 0);
  CHECK(count(gated.backward_weight, Kernel::kFreshProduct) == 3 * 5);
  CHECK(count(gated.backward_weight, Kernel::kWeightProduct) == 1);
}

}  // namespace
}  // namespace nqd::planner
