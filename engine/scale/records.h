// What `nqd scale` measured: the same training on more and more ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::engine {

enum class ScaleRegime : std::uint8_t {
  kEqualGlobalBatch,  // strong scaling: the ranks share the config's global batch
  kEqualLocalBatch,   // weak scaling: the global batch grows with dp
};
std::string_view name(ScaleRegime regime);  // "equal-global-batch", "equal-local-batch"
std::optional<ScaleRegime> parse_scale_regime(std::string_view text);

struct ScaleRun {
  std::int64_t seed = 0;
  std::vector<double> step_s;          // of every step, the warm-up first; maximum over ranks
  std::optional<double> heldout_loss;  // after the last step; none: too little held-out data
  std::string weights_sha256;
  std::vector<std::string> audit_failures;  // exact rows that are not
};

struct ScalePoint {
  ScaleRegime regime = ScaleRegime::kEqualGlobalBatch;
  std::int64_t ranks = 1;
  std::string engine;             // "ddp"
  std::string mesh;               // "2x1x1": dp, tp, pp
  std::int64_t global_batch = 0;  // samples
  std::int64_t tokens = 0;        // of a step
  // ranks · threads are more than the CPUs: says nothing about what this many ranks can do.
  bool oversubscribed = false;
  double predicted_step_s = 0;  // by the plan; 0: the cluster's rates are unknown
  std::vector<ScaleRun> runs;   // by seed, the same seeds at every point
};

struct ScaleResult {
  std::string launcher;  // "threads", "mpirun"
  bool canonical = true;
  std::int64_t threads = 1;  // of a rank
  std::int64_t cpus = 1;     // that the ranks may use
  std::int64_t warmup = 0;   // steps before those that are measured
  std::int64_t steps = 0;    // measured
  double margin = 0;         // of a held-out loss that counts as equal, as a share of it
  std::string data_digest;
  bool data_synthetic = false;
  std::vector<ScalePoint> points;  // by regime, then ranks; the first of a regime is its base
};

}  // namespace nqd::engine
