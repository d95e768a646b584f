#include <doctest/doctest.h>

#include "planner/layout/activation_buffers.h"
#include "planner/layout/control.h"
#include "planner/layout/state_buffers.h"
#include "planner/reference/reference_plan.h"
#include "tests/planner/reference/reference_config.h"

namespace nqd::planner {
namespace {

constexpr std::int64_t kTable = kVocab * kHidden;
// Group "control" on two ranks: the longer half of the words of a step's sums.
constexpr std::int64_t kControl = 8 * ((kTotalsWords + 1) / 2);
constexpr std::int64_t kElements = kTable + kSequence * kHidden + 4 * kLayer + 2 * kHidden;

Config gpt(std::int64_t dp, std::int64_t tp = 1, std::int64_t pp = 1) {
  return small_gpt(1, dp, tp, pp);
}

double category(const Config& config, const char* name, std::int64_t rank = 0) {
  const StageMemory memory = reference_memory(config, rank);
  const auto found = memory.categories.find(name);
  return found == memory.categories.end() ? 0 : found->second;
}

TEST_CASE("state of one rank: weights, gradients with the tied head's, two moments") {
  Config config = gpt(1);
  CHECK(category(config, "weights") == 4 * kElements);
  CHECK(category(config, "gradients") == 4 * (kElements + kTable));
  CHECK(category(config, "moments") == 8 * kElements);
  CHECK(category(config, "master") == 0);
  CHECK(category(config, "communication") == 0);
  config.numerics.mode = collectives::Numerics::kFast;
  CHECK(category(config, "gradients") == 4 * kElements);
  config.train.precision = config.train.gradient_precision = Precision::kBFloat16;
  CHECK(category(config, "weights") == 2 * kElements);
  // Float32 sums whatever gradient_precision says.
  CHECK(category(config, "gradients") == 4 * kElements);
  CHECK(category(config, "master") == 4 * kElements);
  config.train.optimizer.kind = OptimizerKind::kSgd;
  CHECK(category(config, "moments") == 0);
}

TEST_CASE("zero3 keeps a part of every unit and room for those that are gathered") {
  Config config = gpt(4);
  config.parallel.engine = Engine::kZero3;
  CHECK(category(config, "weights") == kElements);
  CHECK(category(config, "moments") == 2 * kElements);
  // Token table, positions, two layers, the final norm.
  CHECK(category(config, "gathered_units") ==
        4 * (kTable + kSequence * kHidden + 2 * kLayer + 2 * kHidden));
}

TEST_CASE("a stage keeps as many micro-batches as its schedule has in flight") {
  Config config = gpt(1, 1, 4);
  config.train.global_batch_size = 16;
  // One layer and one slot.
  Config alone = gpt(1);
  alone.model.layers = 1;
  const auto kept = [](const Config& c, std::int64_t rank) {
    double bytes = 0;
    for (const ActivationBuffer& buffer : activation_buffers(c, rank)) {
      if (buffer.name.find("slot0.layers.") != std::string::npos) {
        bytes += static_cast<double>(buffer.bytes);
      }
    }
    return bytes;
  };
  const double layer = kept(alone, 0);
  REQUIRE(layer > 0);
  const double stream = 4.0 * 2 * kSequence * kHidden;
  // 1f1b: p − stage of m = 8; every stage but the last keeps its output too.
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    CHECK(category(config, "activations", rank) ==
          static_cast<double>(4 - rank) * (layer + stream));
  }
  config.parallel.schedule = Schedule::kGPipe;
  CHECK(category(config, "activations", 2) == 8 * (layer + stream));
}

TEST_CASE("a communicator's scratch is counted once, for its largest call") {
  // Direct calls in place up to 8 KiB: [rows, 2] of the loss is the longest of tp.
  CHECK(category(gpt(1, 2), "communication") == kControl + 4 * 2 * (2 * kSequence));
  // The positions are the longest of the short buckets.
  Config config = gpt(2);
  config.train.bucket_bytes = 1;
  CHECK(category(config, "communication") == kControl + 4 * kSequence * kHidden);
}

TEST_CASE("the plan has the largest rank of every stage and says whether it fits") {
  Config config = gpt(2, 1, 2);
  config.parallel.engine = Engine::kZero2;
  const ReferencePlan plan = plan_reference_engine(config);
  REQUIRE(plan.memory.stages.size() == 2);
  double worst = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const StageMemory own = reference_memory(config, rank);
    CHECK(plan.memory.stages[std::size_t(own.stage)].total_bytes >= own.total_bytes);
    CHECK(own.total_bytes == own.persistent_bytes + own.transient_bytes);
    worst = std::max(worst, own.total_bytes);
  }
  CHECK(plan.memory.worst_total_bytes == worst);
  CHECK(plan.memory.fits);
  config.cluster.memory_bytes = worst - 1;
  CHECK_FALSE(plan_reference_engine(config).memory.fits);
  config.cluster.memory_bytes = worst;
  CHECK(plan_reference_engine(config).memory.fits);
}

}  // namespace
}  // namespace nqd::planner
