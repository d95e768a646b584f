#include "tests/engine/tiny_run.h"

#include "engine/data/dataset.h"
#include "tests/temporary_folder.h"

namespace nqd::testing {

const std::string& licence_dataset() {
  struct Holder {
    TemporaryFolder folder;
    std::string data = (folder / "data").string();
    Holder() {
      engine::PrepareOptions options;
      options.output = data;
      engine::prepare_dataset(options);
    }
  };
  static const Holder holder;
  return holder.data;
}

planner::Config tiny_run(std::int64_t dp) {
  planner::Config config;
  config.source = "test";
  config.model.layers = 2;
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.ffn_hidden = 128;
  config.model.vocab = 256;
  config.model.sequence = 32;
  config.cluster.preset = "cpu-host";
  config.cluster.gpus_per_node = dp;
  config.parallel.dp = dp;
  config.train.precision = planner::Precision::kFloat32;
  config.train.gradient_precision = planner::Precision::kFloat32;
  config.train.micro_batch_size = 2;
  config.train.bucket_bytes = 20'000;
  config.train.optimizer.warmup_steps = 2;
  config.train.optimizer.learning_rate = 3e-3;
  config.data.path = licence_dataset();
  return config;
}

}  // namespace nqd::testing
