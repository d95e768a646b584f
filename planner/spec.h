// What a user asks for, after presets, overrides and defaults are applied: plain records, no YAML.
// planner/config/ fills them; planner, engine and reports read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/numerics.h"
#include "planner/hardware.h"

namespace nqd::planner {

enum class Engine : std::uint8_t { kDdp, kZero1, kZero2, kZero3, kHsdp };
std::string_view name(Engine engine);  // "ddp", "zero1", "zero2", "zero3", "hsdp"

// fp8: matrix products of the layers in 8 bits, everything else (weights kept between steps
// included) as bfloat16.
enum class Precision : std::uint8_t { kFloat32, kBFloat16, kFloat16, kFp8 };
std::string_view name(Precision precision);  // "float32", "bfloat16", "float16", "fp8"
std::optional<Precision> parse_precision(std::string_view text);

// selective: the attention core (scores, softmax, dropout, context) is computed again; full: a
// whole layer, of every group of train.recompute_every layers but its input.
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
std::string_view name(Recompute recompute);  // "none", "selective", "full"

enum class Schedule : std::uint8_t { kGPipe, k1F1B, kInterleaved, kZbH1, kZbH2, kZbV };
std::string_view name(
    Schedule schedule);  // "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"

// materialised: the s × s scores are written to memory; flash: they are not.
enum class Attention : std::uint8_t { kMaterialised, kFlash };
std::string_view name(Attention attention);  // "materialised", "flash"

enum class Norm : std::uint8_t { kLayerNorm, kRmsNorm };
std::string_view name(Norm norm);  // "layernorm", "rmsnorm"

enum class Positions : std::uint8_t { kLearned, kRotary, kNone };
std::string_view name(Positions positions);  // "learned", "rotary", "none"

// What the learning rate does after its linear warm-up (engine/optimizer/schedule.h has the
// formulas); wsd: warmup-stable-decay (Hu et al. 2024, arXiv:2404.06395).
enum class RateSchedule : std::uint8_t { kConstant, kCosine, kWsd };
std::string_view name(RateSchedule schedule);  // "constant", "cosine", "wsd"

// How wsd's decay goes down (Hägele et al. 2024, arXiv:2405.18392).
enum class DecayShape : std::uint8_t { kLinear, kOneMinusRoot };
std::string_view name(DecayShape shape);  // "linear", "1-sqrt"

// From the innermost axis of the mesh to the outermost: which ranks are neighbours.
// tp-cp-pp-dp is nqd's; tp-cp-dp-pp is Megatron's.
enum class MeshOrder : std::uint8_t { kPpThenDp, kDpThenPp };
std::string_view name(MeshOrder order);  // "tp-cp-pp-dp", "tp-cp-dp-pp"

// Mixture of experts: what stands in place of the MLP of all layers but the first `dense_layers`.
struct MoeSpec {
  std::int64_t experts = 0;               // routed; 0 = no layer has experts
  std::int64_t experts_per_token = 0;     // top-k
  std::int64_t expert_hidden = 0;         // inner width of one routed expert
  std::int64_t shared_expert_hidden = 0;  // inner width of all shared experts together; 0 = none
  std::int64_t dense_layers = 0;          // first layers with an ordinary MLP
  double capacity_factor = 0;  // tokens an expert takes at most ÷ its even share; 0 = dropless
  bool router_bias = false;    // one number an expert, for balancing without a loss (DeepSeek-V3)
  bool shared_gate = false;    // a gate on the shared experts' output: `hidden` weights (Qwen2-MoE)
};

// Multi-head latent attention (DeepSeek-V2); kv_lora_rank 0 = ordinary attention.
struct MlaSpec {
  std::int64_t q_lora_rank = 0;  // 0 = queries are projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
};

// Llama 3.1's stretching of slow rotary frequencies to longer sequences; factor 1 = none. The names
// are those of Hugging Face's config.json.
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

// Pictures in, for families vit, edsr and unet.
struct ImageSpec {
  std::int64_t size = 0;  // pixels a side of one (square) sample; edsr: of the low-resolution tile
  std::int64_t channels = 3;
  std::int64_t patch = 0;                  // vit: pixels a side
  std::int64_t classes = 0;                // vit: width of the head
  std::int64_t features = 0;               // edsr, unet: channels of the first level
  std::int64_t blocks = 0;                 // edsr: residual blocks; unet: residual blocks a level
  std::int64_t scale = 0;                  // edsr: 2, 3, 4
  std::int64_t condition_channels = 0;     // unet: channels joined to the input
  std::vector<std::int64_t> multipliers;   // unet: channels of a level ÷ features
  std::vector<std::int64_t> attention_at;  // unet: sizes (pixels a side) with attention
};

// One kind of block of family custom, `count` times in a row. Per sample (sequence or picture).
struct CustomBlock {
  std::string name;
  std::int64_t count = 1;
  double parameters = 0;     // elements of one block
  double forward_flops = 0;  // of one sample
  double saved_bytes = 0;    // kept from forward to backward of one sample
  double input_bytes = 0;    // what full recomputation keeps
  friend bool operator==(const CustomBlock&, const CustomBlock&) = default;
};

struct ModelSpec {
  std::string preset;  // as asked, or empty
  // gpt (GPT-2-like), llama (RMSNorm, rotary, gated, untied), moe (llama with experts), vit,
  // timeseries (an encoder over samples of `image`-less features), edsr, unet, custom (`blocks`),
  // state (only `parameters` is known). A family sets the defaults of the keys below; nothing else
  // of gpt, llama, moe differs. planner/models/ has the shapes.
  std::string family = "gpt";
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;    // default heads
  std::int64_t head_dim = 0;    // default hidden / heads
  std::int64_t ffn_hidden = 0;  // default 4·hidden
  std::int64_t vocab = 0;
  std::int64_t sequence = 0;  // tokens a sequence, also the position-embedding rows
  bool tied_head = true;
  bool gated_mlp = false;
  bool bias = true;      // of linear layers
  bool qkv_bias = true;  // of the query, key and value projections
  bool qk_norm = false;  // every query and key head is normalised, by one norm each (Qwen3)
  bool causal = true;
  Norm norm = Norm::kLayerNorm;
  double norm_epsilon = 1e-5;
  Positions positions = Positions::kLearned;
  double rope_base = 10000;  // θ of rotary positions
  RopeScaling rope_scaling;
  std::int64_t mtp_layers = 0;      // multi-token prediction modules on the last stage
  std::int64_t input_features = 0;  // timeseries: numbers a time step
  std::int64_t output_features = 0;
  MoeSpec moe;
  MlaSpec mla;
  ImageSpec image;
  std::vector<CustomBlock> blocks;
  double parameters = 0;  // family "state": Φ as given; others: counted (planner/models/)
};
// A stack of equal (or dense-then-expert) transformer layers over tokens: gpt, llama, moe, vit,
// timeseries. Only these can be split over tp, cp and pp.
bool is_transformer(const ModelSpec& model);

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

// What one call of `bytes` took.
struct SamplePoint {
  double bytes = 0;
  double seconds = 0;  // p50
};

// A measured collective curve of a calibration: time of one call by payload bytes.
struct CalibratedCurve {
  std::string collective;  // "all_reduce"
  std::string algorithm;   // "ring", …
  std::int64_t ranks = 0;
  std::vector<LinkPiece> pieces;     // sorted, touching
  double max_residual_fraction = 0;  // of the fit, over all measured points
  bool inside_node = true;           // measured among ranks of one node; prices only such groups
  // Where the pieces miss by too much: the measured sizes, ascending, between which a price is
  // interpolated; empty: the pieces are the price.
  std::vector<SamplePoint> points{};
  double held_out_fraction = 0;  // with points: worst miss of a size that was held out of them
  double break_bytes = 0;        // payloads above move in another way; 0 = none known
};

// Which algorithm is fastest by payload: measured crossover points of a calibration.
struct CrossoverChoice {
  double from_bytes = 0;  // until the next choice; the first also holds below
  std::string algorithm;
};
struct Crossovers {
  std::string collective;
  std::int64_t ranks = 0;
  bool inside_node = true;
  std::string backend;                   // "local", "mpi"
  bool registered = false;               // measured on vectors in shared buffers
  std::vector<CrossoverChoice> choices;  // ascending
};

// Seconds that one of the kernels of nqd's own engine takes: item_s · items + unit_s · units, as
// planner/reference/kernels.h counts them.
struct KernelRate {
  std::string kernel;
  double item_s = 0;
  double unit_s = 0;
};
// Of the whole engine, measured (`nqd bench engine`) while `ranks` ranks of one host compute at
// once with `threads` threads each.
struct EngineRates {
  collectives::Numerics numerics = collectives::Numerics::kCanonical;
  Precision precision = Precision::kFloat32;
  std::int64_t threads = 1;
  std::int64_t ranks = 1;
  std::int64_t cpus = 0;  // that the host's ranks may use; 0 = unknown
  double in_place = 1;    // time of a whole step ÷ that of its kernels, timed one by one
  std::vector<KernelRate> kernels;
};

struct ClusterSpec {
  std::string preset;  // as asked, or empty
  std::string gpu;     // name of a device preset, or empty
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;  // devices (ranks) a node
  double memory_bytes = 0;         // HBM of one device; 0 = unknown
  double peak_flops = 0;           // dense peak in the training precision, FLOP/s; 0 unknown
  double gemm_flops = 0;           // achieved GEMM rate, FLOP/s; 0 = 0.6 × peak
  double memory_bandwidth_bytes_per_s = 0;
  LinkSpec intra_node;             // NVLink, shared memory, …
  LinkSpec inter_node;             // the NIC share of one device
  std::int64_t nvlink_domain = 0;  // devices of one scale-up domain; 0 = gpus_per_node
  std::int64_t nics_per_node = 0;  // 0 = one a device
  double oversubscription = 1;     // of the network between nodes, at least 1
  double price_per_gpu_hour = 0;   // US$; 0 = unknown
  double ingest_bytes_per_s = 0;   // storage rate of one node; 0 = unknown
  GpuConstants device;             // planner/hardware.h
  FabricConstants fabric;          // planner/hardware.h
  // Ranks of one node reach each other's memory: nqd's CPU engine then reduces gradients directly.
  // The engine clears it where it finds that they do not.
  bool ranks_share_memory = true;
  std::vector<CalibratedCurve> curves;    // from a calibration file
  std::vector<Crossovers> crossovers;     // likewise
  std::vector<EngineRates> engine_rates;  // likewise
  std::string calibration_source;         // path and time of the calibration, or empty
  std::int64_t devices() const { return nodes * gpus_per_node; }
};

struct ParallelSpec {
  Engine engine = Engine::kDdp;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;         // context parallel: tokens of a sequence
  std::int64_t ep = 1;         // experts, over ranks of dp·cp (·tp with expert_tp < tp)
  std::int64_t expert_tp = 0;  // tp inside an expert; 0 = tp
  std::int64_t vpp = 1;        // virtual stages a rank
  MeshOrder order = MeshOrder::kPpThenDp;
  std::int64_t hsdp_shard = 0;             // hsdp: ranks in one shard group; 0 = those of a node
  std::optional<std::int64_t> world_size;  // checked against dp·tp·cp·pp when given
  bool world_size_given = false;           // written by the user, not derived from the mesh
  Schedule schedule = Schedule::k1F1B;
  bool sequence_parallel = false;
  bool async_tensor = false;  // tp gathers and reduces in pieces, beside the products that use them
  std::vector<std::int64_t> pipeline_split;  // layers a stage; empty = even
  std::int64_t ranks() const { return dp * tp * cp * pp; }
};

enum class OptimizerKind : std::uint8_t { kAdamW, kSgd, kSgdMomentum };
std::string_view name(OptimizerKind kind);  // "adamw", "sgd", "sgd-momentum"

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  bool offload = false;  // its state and the master weights live in host memory
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  RateSchedule schedule = RateSchedule::kCosine;
  std::int64_t warmup_steps = 10;
  std::int64_t decay_steps = 0;  // wsd: the last steps of the run, in which the rate goes down
  DecayShape decay_shape = DecayShape::kLinear;
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
  std::int64_t recompute_every = 1;  // full: layers between two kept inputs
  Attention attention = Attention::kFlash;
  bool dropout = false;  // its masks are kept for backward
  // Element-wise chains run as one kernel and keep no intermediate results. False: eager kernels,
  // which also keep a gated MLP's activated gate and a second copy of flash attention's output.
  bool fused_kernels = true;
  bool fused_loss = false;  // cross-entropy is one kernel: no float32 copies of the logits
  bool ema = false;
  Runtime runtime = Runtime::kNqd;
  double tokens = 0;       // to train on in all; 0 = not given
  double noise_scale = 0;  // gradient noise scale in sequences (critical batch); 0 = not given
  std::int64_t seed = 1234;
  std::int64_t bucket_bytes = 25'000'000;  // DDP gradient bucket
  std::int64_t eval_every = 0;             // steps; 0 = only at the end
  std::int64_t eval_batches = 8;  // micro-batches of held-out text a rank… in all, at most
  std::int64_t threads = 1;       // a rank
  OptimizerSpec optimizer;
};

// What nqd's own engine promises about the bits of a run.
struct NumericsSpec {
  collectives::Numerics mode = collectives::Numerics::kCanonical;
  // Canonical: into how many slices every sum that tp divides is cut, whatever tp is.
  std::int64_t tp_slices = 8;
};

struct DataSpec {
  std::string path;  // folder written by `nqd data prepare`; empty for planning only
};

// What nqd's own engine saves of a run.
struct CheckpointSpec {
  std::string path;        // folder of the generations; empty: checkpoints in the run's folder
  std::int64_t every = 0;  // steps; 0: only when the run is asked to stop
  double every_s = 0;      // and when so long has passed since the last save; 0: never
  std::int64_t keep_last = 2;
  std::int64_t keep_every = 0;  // steps; 0: none beyond the last
  double keep_interval_s = 0;   // one of every so many seconds is kept; 0: none beyond the last
  std::string durable_path;     // where complete generations are copied to; empty: nowhere
  double bytes_per_s = 0;       // of one rank, at most; 0: as fast as it goes
  bool async = true;            // a copy of the state is written beside training
};

// What nqd's own engine does about a run that goes wrong without dying.
struct GuardSpec {
  std::int64_t max_skips = 8;       // steps in a row whose loss or gradients are not finite
  bool roll_back = false;           // after them to the last save, past their batches; false: end
  double spike_score = 0;           // robust z of a loss that counts as not finite; 0: none does
  std::int64_t max_roll_backs = 3;  // of a run
  std::int64_t window = 32;         // steps that medians and spreads are taken over
  double straggler_score = 0;       // robust z of a slow rank; 0: ranks are not compared
  bool straggler_stop = false;      // save and stop with exit code 75; false: a warning
};

struct Config {
  std::string source;  // path of the file
  ModelSpec model;
  ClusterSpec cluster;
  ParallelSpec parallel;
  TrainSpec train;
  StackSpec stack;  // planner/hardware.h
  DataSpec data;
  NumericsSpec numerics;
  CheckpointSpec checkpoint;
  GuardSpec guard;
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
