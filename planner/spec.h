// What a user asks for, after presets, overrides and defaults are applied: plain records, no YAML.
// planner/config/ fills them; planner, engine and reports read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::planner {

enum class Engine : std::uint8_t { kDdp, kZero1, kZero2, kZero3, kHsdp };
std::string_view name(Engine engine);  // "ddp", "zero1", "zero2", "zero3", "hsdp"

enum class Precision : std::uint8_t { kFloat32, kBFloat16, kFloat16 };
std::string_view name(Precision precision);  // "float32", "bfloat16", "float16"

enum class Recompute : std::uint8_t { kNone, kFull };
std::string_view name(Recompute recompute);

enum class Schedule : std::uint8_t { kGPipe, k1F1B, kInterleaved };
std::string_view name(Schedule schedule);  // "gpipe", "1f1b", "interleaved"

struct ModelSpec {
  std::string preset;          // as asked, or empty
  std::string family = "gpt";  // "gpt" (GPT-2-like decoder) or "state" (only `parameters` is known)
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn_hidden = 0;  // default 4·hidden
  std::int64_t vocab = 0;
  std::int64_t sequence = 0;  // tokens a sequence, also the position-embedding rows
  bool tied_head = true;
  double parameters = 0;  // family "state": Φ as given; family "gpt": counted (planner/layout.h)
};

// One piece of a piecewise α–β curve: valid for payloads in [from_bytes, to_bytes].
struct LinkPiece {
  double from_bytes = 0;
  double to_bytes = 0;
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

// A measured link; `pieces` empty means: use alpha_s and bandwidth.
struct LinkSpec {
  double alpha_s = 0;
  double bandwidth_bytes_per_s = 0;  // one direction, one rank
};

// A measured collective curve of a calibration: time of one call by payload bytes.
struct CalibratedCurve {
  std::string collective;  // "all_reduce"
  std::string algorithm;   // "ring", …
  std::int64_t ranks = 0;
  std::vector<LinkPiece> pieces;     // sorted, touching
  double max_residual_fraction = 0;  // of the fit, over all measured points
  bool inside_node = true;           // measured among ranks of one node; prices only such groups
};

struct ClusterSpec {
  std::string preset;  // as asked, or empty
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;  // devices (ranks) a node
  double memory_bytes = 0;         // HBM of one device; 0 = unknown
  double peak_flops = 0;           // dense peak in the training precision, FLOP/s; 0 unknown
  double gemm_flops = 0;           // achieved GEMM rate, FLOP/s; 0 = 0.6 × peak
  double memory_bandwidth_bytes_per_s = 0;
  LinkSpec intra_node;                  // NVLink, shared memory, …
  LinkSpec inter_node;                  // the NIC share of one device
  std::vector<CalibratedCurve> curves;  // from a calibration file
  std::string calibration_source;       // path and time of the calibration, or empty
  std::int64_t devices() const { return nodes * gpus_per_node; }
};

struct ParallelSpec {
  Engine engine = Engine::kDdp;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t vpp = 1;                    // virtual stages a rank
  std::int64_t hsdp_shard = 0;             // hsdp: ranks in one shard group; 0 = those of a node
  std::optional<std::int64_t> world_size;  // checked against dp·tp·pp when given
  bool world_size_given = false;           // written by the user, not derived from the mesh
  Schedule schedule = Schedule::k1F1B;
  bool sequence_parallel = false;
  std::vector<std::int64_t> pipeline_split;  // layers a stage; empty = even
  std::int64_t ranks() const { return dp * tp * pp; }
};

struct OptimizerSpec {
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  std::int64_t warmup_steps = 10;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // decoupled; matrices only
  double grad_clip = 1.0;     // global norm; 0 = off
};

struct TrainSpec {
  std::int64_t micro_batch_size = 1;   // sequences
  std::int64_t global_batch_size = 1;  // sequences = micro_batch_size · m · dp
  std::int64_t steps = 100;
  Precision precision = Precision::kBFloat16;
  Precision gradient_precision = Precision::kBFloat16;  // accumulation dtype
  Recompute recompute = Recompute::kNone;
  bool ema = false;
  std::int64_t seed = 1234;
  std::int64_t bucket_bytes = 25'000'000;  // DDP gradient bucket
  std::int64_t eval_every = 0;             // steps; 0 = only at the end
  std::int64_t eval_batches = 8;  // micro-batches of held-out text a rank… in all, at most
  std::int64_t threads = 1;       // a rank
  OptimizerSpec optimizer;
};

struct DataSpec {
  std::string path;  // folder written by `nqd data prepare`; empty for planning only
};

struct Config {
  std::string source;  // path of the file
  ModelSpec model;
  ClusterSpec cluster;
  ParallelSpec parallel;
  TrainSpec train;
  DataSpec data;
  // m of `global_batch_size = micro_batch_size · m · dp`.
  std::int64_t micro_batches() const {
    return train.global_batch_size / (train.micro_batch_size * parallel.dp);
  }
};

// Where each value came from, in the order of the config reference.
struct ResolvedValue {
  std::string path;    // "train.optimizer.learning_rate"
  std::string value;   // as YAML would print it
  std::string origin;  // "configs/quickstart.yaml:12", "preset gpt2-124m", "--set", "default"
};

}  // namespace nqd::planner
