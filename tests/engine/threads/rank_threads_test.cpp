// Runs of ranks that compute with several threads.
#include <doctest/doctest.h>

#include <string>

#include "engine/data/training_data.h"
#include "engine/parity/compare.h"
#include "engine/parity/data.h"
#include "planner/config/config.h"
#include "tests/temporary_folder.h"

using namespace nqd;

namespace {

// Wide enough that products and loops over elements are divided among the threads.
planner::Config wide(const std::string& name) {
  planner::Config config =
      planner::load_config(std::string(NQD_SOURCE_DIR) + "/configs/parity/" + name + ".yaml")
          .config;
  config.model.layers = 2;
  config.model.hidden = 128;
  config.model.ffn_hidden = 512;
  config.model.sequence = 64;
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 8;
  return config;
}

engine::ParityRun run(planner::Config config, const std::string& folder, std::int64_t threads) {
  config.train.threads = threads;
  const planner::Config ready = engine::with_generated_data(config, folder);
  const engine::TrainingData data = engine::open_training_data(ready, true);
  return engine::run_on_threads(ready, data);
}

}  // namespace

TEST_CASE("canonical numerics: the bits do not depend on the threads of a rank") {
  for (const std::string name : {"gpt-tied", "gpt-dropout", "llama-gqa"}) {
    const nqd::testing::TemporaryFolder folder;
    const engine::ParityRun one = run(wide(name), folder.path(), 1);
    REQUIRE(one.error == "");
    for (const std::int64_t threads : {2, 3}) {
      const engine::ParityRun several = run(wide(name), folder.path(), threads);
      CHECK(several.error == "");
      CHECK(several.losses == one.losses);
      CHECK(several.grad_norms == one.grad_norms);
      CHECK(several.heldout_loss == one.heldout_loss);
      CHECK(several.weights_sha256 == one.weights_sha256);
      CHECK(several.audit_failures.empty());
    }
  }
}

TEST_CASE("fast numerics: threads stay within the envelope, and repeat their bits") {
  planner::Config config = wide("gpt-tied");
  config.numerics.mode = collectives::Numerics::kFast;
  const nqd::testing::TemporaryFolder folder;
  const engine::ParityRun one = run(config, folder.path(), 1);
  const engine::ParityRun two = run(config, folder.path(), 2);
  const engine::ParityRun again = run(config, folder.path(), 2);
  REQUIRE(two.losses.size() == one.losses.size());
  const double envelope = engine::envelope_of(config.train.precision).loss;
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    CHECK(two.losses[i] == doctest::Approx(one.losses[i]).epsilon(envelope));
  }
  CHECK(again.losses == two.losses);
  CHECK(again.weights_sha256 == two.weights_sha256);
  CHECK(two.audit_failures.empty());
}
