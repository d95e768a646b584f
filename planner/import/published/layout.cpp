#include "planner/import/published/layout.h"

#include <algorithm>

#include "planner/mesh/fabric.h"

namespace nqd::planner::published {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;
constexpr std::string_view kTooLarge = "larger than what can be planned";

bool torchtitan(const Platform& platform) { return platform.stack.starts_with("torchtitan"); }

// dp follows from the devices: tables that print another dp count ep or cp ranks in it.
void read_axes(Fields& row, Config& config, std::string& problem) {
  ParallelSpec& parallel = config.parallel;
  const bool some_axis = row.count("tp") || row.count("pp") || row.count("dp");
  const std::optional<std::int64_t> devices = row.count("gpus");
  if (!some_axis && devices.value_or(2) > 1) {
    problem = "the row gives no parallel layout";
    return;
  }
  parallel.tp = row.count_or("tp", 1);
  parallel.pp = row.count_or("pp", 1);
  parallel.cp = row.count_or("cp", 1);
  parallel.ep = config.model.moe.experts > 0 ? row.count_or("ep", 1) : 1;
  // Megatron's expert layers are not split over tp unless the row says so.
  parallel.expert_tp = parallel.ep > 1 ? row.count_or("etp", 1) : 0;
  if (parallel.tp * parallel.pp > kMaxRanks || parallel.cp > kMaxRanks) {
    problem = kTooLarge;
    return;
  }
  const std::int64_t replica = parallel.tp * parallel.pp * parallel.cp;
  const std::int64_t gpus = devices.value_or(row.count_or("dp", 1) * std::min(replica, kMaxRanks));
  if (gpus % replica != 0) {
    problem = text(gpus) + " devices are no multiple of tp·pp·cp = " + text(replica);
    return;
  }
  parallel.dp = gpus / replica;
  parallel.world_size = gpus;
  parallel.order = MeshOrder::kDpThenPp;
  if (parallel.tp > config.model.heads) {
    problem = "tp = " + text(parallel.tp) + " is more than the heads";
  } else if (parallel.ep > 1 && (parallel.dp * parallel.cp * parallel.tp) % parallel.ep != 0) {
    problem = "ep = " + text(parallel.ep) + " does not divide the ranks of a stage";
  }
}

// 0 for products beyond all reason, of which nothing is a multiple.
std::int64_t batch_of(std::int64_t micro_batches, std::int64_t micro_batch, std::int64_t dp) {
  const double sequences = static_cast<double>(micro_batches) * static_cast<double>(micro_batch) *
                           static_cast<double>(dp);
  return sequences > 1e12 ? 0 : micro_batches * micro_batch * dp;
}

std::int64_t global_batch(Fields& row, const Config& config) {
  for (const std::string_view key : {"gbs", "global_batch_size", "global_batch"}) {
    if (const auto batch = row.count(key)) return *batch;
  }
  const std::int64_t dp = config.parallel.dp;
  const std::int64_t micro_batch = row.count_or("mbs", 1);
  for (const std::string_view key : {"num_microbatches", "grad_accum"}) {
    if (const auto micro_batches = row.count(key)) return batch_of(*micro_batches, micro_batch, dp);
  }
  for (const std::string_view key : {"batch_per_dp", "bs_per_dp", "batch_size_per_dp"}) {
    if (const auto share = row.count(key)) return batch_of(*share, 1, dp);
  }
  row.assumed.emplace_back("as many micro-batches as stages");
  return batch_of(config.parallel.pp, micro_batch, dp);
}

void read_batch(Fields& row, const Platform& platform, Config& config, std::string& problem) {
  TrainSpec& train = config.train;
  train.global_batch_size = global_batch(row, config);
  std::int64_t micro_batch = row.count_or("mbs", 0);
  const std::int64_t dp = config.parallel.dp;
  if (torchtitan(platform) && config.parallel.pp > 1) {
    // Its tables print the local batch, which the pipeline divides into one micro-batch a stage.
    micro_batch = train.global_batch_size / (dp * config.parallel.pp);
    row.assumed.emplace_back("as many micro-batches as stages");
  }
  if (micro_batch == 0) {
    micro_batch = 1;
    row.assumed.emplace_back("mbs 1");
  }
  train.micro_batch_size = micro_batch;
  if (train.global_batch_size % (micro_batch * dp) != 0 || train.global_batch_size == 0) {
    problem = "a batch of " + text(train.global_batch_size) +
              " is no multiple of mbs·dp = " + text(micro_batch) + "·" + text(dp);
  }
}

// Layers of each of `stages` chunks when they cannot be equal, or when the row says that the ends
// have one fewer. Embedding and head count as a layer where that makes chunks equal (Llama 3 405B:
// 126 + 2 layers); otherwise the last chunks are the shorter ones, the very last first.
std::vector<std::int64_t> uneven_split(std::int64_t layers, std::int64_t stages,
                                       bool shorter_ends) {
  if (layers % stages == 0 && !shorter_ends) return {};
  if ((layers + 2) % stages == 0 && stages > 1) {
    std::vector<std::int64_t> split(static_cast<std::size_t>(stages), (layers + 2) / stages);
    split.front() -= 1;
    split.back() -= 1;
    return split;
  }
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) split[static_cast<std::size_t>(i)] += 1;
  return split;
}

std::int64_t virtual_stages(Fields& row, const Platform& platform, const Config& config,
                            bool shorter_ends) {
  const std::string given = row.lower("vpp");
  const std::int64_t pp = config.parallel.pp;
  const std::int64_t layers = config.model.layers + (shorter_ends ? 2 : 0);
  if (contains(given, "one layer per chunk")) return std::max<std::int64_t>(1, layers / pp);
  if (const auto chunks = row.count("vpp")) return pp > 1 ? *chunks : 1;
  // Megatron-LM of 2024 overlaps pipeline messages with compute, which it does only when stages are
  // interleaved; its reports do not print by how much.
  const bool ends_count = (config.model.layers + 2) % pp == 0;
  if (pp > 1 && platform.stack == "megatron-core-2024" && (layers % pp == 0 || ends_count)) {
    row.assumed.emplace_back("one layer a virtual stage");
    return (layers % pp == 0 ? layers : config.model.layers + 2) / pp;
  }
  return 1;
}

void read_stages(Fields& row, const Platform& platform, Config& config, std::string& problem) {
  ParallelSpec& parallel = config.parallel;
  const bool shorter_ends = contains(row.lower("first_last_stage"), "one layer fewer");
  parallel.vpp = virtual_stages(row, platform, config, shorter_ends);
  const std::int64_t stages = parallel.pp * parallel.vpp;
  if (stages > config.model.layers + 2) {
    problem = text(stages) + " stages for " + text(config.model.layers) + " layers";
    return;
  }
  parallel.pipeline_split = uneven_split(config.model.layers, stages, shorter_ends);
  const std::string schedule = row.lower("schedule");
  if (contains(schedule, "zb-2p") || contains(schedule, "zb-h2")) {
    parallel.schedule = Schedule::kZbH2;
  } else if (contains(schedule, "zb-1p") || contains(schedule, "zb-h1")) {
    parallel.schedule = Schedule::kZbH1;
  } else if (contains(schedule, "zb-v") || contains(schedule, "zbv")) {
    parallel.schedule = Schedule::kZbV;
  } else if (contains(schedule, "gpipe")) {
    parallel.schedule = Schedule::kGPipe;
  } else {
    parallel.schedule = parallel.vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
  }
}

Engine engine_of(const Fields& row, const Platform& platform) {
  const std::string zero = row.lower("zero");
  if (zero.starts_with("none") || contains(zero, "ddp")) return Engine::kDdp;
  if (contains(zero, "hsdp")) return Engine::kHsdp;
  if (contains(zero, "fsdp") && row.count_or("pp", 1) > 1) {
    // With a pipeline, FSDP keeps weights gathered from one micro-batch to the next (torchtitan;
    // Llama Team 2024, section 3.3.2). Among Megatron's engines that is the distributed optimizer.
    return platform.traits->runtime == Runtime::kFsdp2 ? Engine::kZero2 : Engine::kZero1;
  }
  if (contains(zero, "fsdp")) return Engine::kZero3;
  if (row.count("fsdp")) return Engine::kZero3;
  if (contains(zero, "3")) return Engine::kZero3;
  if (contains(zero, "2")) return Engine::kZero2;
  if (contains(zero, "1") || contains(zero, "dist")) return Engine::kZero1;
  if (contains(zero, "0")) return Engine::kDdp;
  return platform.traits->engine;
}

// "async TP" of torchtitan, "tp-comm-overlap" of Megatron-LM.
bool overlaps_tensor(const Fields& row) {
  const std::string remarks = row.lower("note") + ' ' + row.lower("precision");
  return contains(remarks, "async tp") || contains(remarks, "asynctp") ||
         contains(remarks, "tp-comm-overlap");
}

void read_engine(Fields& row, const Platform& platform, Config& config, std::string& problem) {
  ParallelSpec& parallel = config.parallel;
  parallel.engine = engine_of(row, platform);
  if (parallel.engine == Engine::kHsdp) {
    parallel.hsdp_shard = default_hsdp_shard(config.cluster, parallel);
  }
  const std::int64_t shard = row.count_or("fsdp", 0);
  if (shard > 1 && shard < parallel.dp && parallel.dp % shard != 0) {
    problem = "shard groups of " + text(shard) + " do not divide dp = " + text(parallel.dp);
    return;
  }
  if (shard > 1 && shard < parallel.dp) {
    parallel.engine = Engine::kHsdp;
    parallel.hsdp_shard = shard;
  }
  parallel.async_tensor = parallel.tp > 1 && overlaps_tensor(row);
  if (!row.has("zero") && row.count_or("fsdp", 0) == 0) {
    row.assumed.emplace_back("engine " + std::string(name(parallel.engine)));
  }
  parallel.sequence_parallel =
      parallel.tp > 1 && row.flag("sequence_parallel").value_or(platform.traits->sequence_parallel);
  if (parallel.tp > 1 && !row.has("sequence_parallel")) {
    row.assumed.emplace_back(parallel.sequence_parallel ? "sequence parallelism"
                                                        : "no sequence parallelism");
  }
}

void read_recompute(Fields& row, const Platform& platform, Config& config, std::string& problem) {
  const std::string recompute = row.lower("recompute");
  if (recompute.empty()) {
    row.assumed.emplace_back(torchtitan(platform) ? "recompute selective" : "recompute none");
  }
  if (recompute.starts_with("full")) {
    config.train.recompute = Recompute::kFull;
  } else if (contains(recompute, "selective layer")) {
    problem = "recomputation of every second layer alone";
  } else if (recompute.starts_with("selective") || (torchtitan(platform) && recompute.empty())) {
    config.train.recompute = Recompute::kSelective;
  } else if (recompute.empty() || recompute.starts_with("no") || recompute == "false") {
    config.train.recompute = Recompute::kNone;
  } else {
    problem = "recomputation \"" + recompute + "\" is not one that is known";
  }
}

void read_numerics(const Fields& row, const Platform& platform, Config& config) {
  TrainSpec& train = config.train;
  train.runtime = platform.traits->runtime;
  const std::string note = row.lower("note");
  const bool flash = contains(note, "flash") || contains(row.lower("attention"), "flash") ||
                     row.flag("flash_attention").value_or(false);
  train.attention = flash ? Attention::kFlash : platform.traits->attention;
  train.dropout = platform.traits->dropout || contains(note, "dropout");
  if (const auto rate = row.number("dropout")) train.dropout = *rate > 0;
  train.gradient_precision = platform.traits->gradients;
  train.fused_kernels = torchtitan(platform) && !note.empty() ? contains(note, "compile")
                                                              : platform.traits->fused_kernels;
  // Its compiler takes the loss in since 2025.
  train.fused_loss =
      torchtitan(platform) && train.fused_kernels && contains(row.lower("source"), "2025");
  const bool bfloat16 = train.precision != Precision::kFloat16;
  if (train.gradient_precision == Precision::kFloat16 && bfloat16) {
    train.gradient_precision = Precision::kBFloat16;
  }
  // llm-foundry's "pure" mode gathers and reduces in 16 bits.
  if (row.lower("mp_mode") == "pure") train.gradient_precision = Precision::kBFloat16;
}

void place_on_nodes(Config& config) {
  ClusterSpec& cluster = config.cluster;
  const std::int64_t devices = config.parallel.ranks();
  cluster.gpus_per_node = std::min(std::max<std::int64_t>(1, cluster.gpus_per_node), devices);
  cluster.nodes = (devices + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
}

// Megatron pads the vocabulary to a multiple of 128·tp. vTrain's runs with tp = 1 were not padded:
// their head takes 8.8 ms a 1024 tokens of width 2048, the 78 TFLOP/s of an A100 without its matrix
// units, which refuse an odd dimension.
void pad_vocabulary(const Platform& platform, Config& config) {
  if (platform.traits->runtime != Runtime::kMegatron) return;
  if (platform.traits->stack == "megatron-deepspeed-2022" && config.parallel.tp == 1) return;
  const std::int64_t multiple = 128 * config.parallel.tp;
  config.model.vocab = (config.model.vocab + multiple - 1) / multiple * multiple;
}

// The limits of a config file's keys.
bool plannable(const Config& config) {
  constexpr std::int64_t kMillion = std::int64_t{1} << 20;
  const ModelSpec& model = config.model;
  return model.layers <= 4096 && model.heads <= 4096 && model.hidden <= kMillion / 4 &&
         model.ffn_hidden <= kMillion && model.vocab <= 16 * kMillion &&
         model.sequence <= 16 * kMillion && config.parallel.ranks() <= kMaxRanks;
}

}  // namespace

Precision precision_of(Fields& row, const Platform& platform, std::string& problem) {
  const std::string given = row.lower("precision");
  if (contains(given, "fp4")) {
    problem = "4-bit matrix products";
    return Precision::kFp8;
  }
  if (contains(given, "fp8") || contains(given, "float8")) return Precision::kFp8;
  if (contains(given, "fp16") || contains(given, "float16")) {
    return contains(given, "bfloat16") ? Precision::kBFloat16 : Precision::kFloat16;
  }
  if (given.empty() || given == "mixed") {
    Precision usual = Precision::kBFloat16;
    if (platform.gpu.starts_with("v100")) usual = Precision::kFloat16;
    // Megatron-Bridge 25.09 prints no precision for its FP8 rows: 725 TFLOP/s of an H100, whose
    // best 16-bit matrix product is 794.5.
    if (given.empty() && platform.traits->usually_fp8) usual = Precision::kFp8;
    row.assumed.emplace_back("precision " + std::string(name(usual)));
    return usual;
  }
  if (given == "fp32" || given == "float32") return Precision::kFloat32;
  return Precision::kBFloat16;
}

void read_layout(Fields& row, const Platform& platform, Config& config, std::string& problem) {
  const std::optional<std::int64_t> sequence = row.count("seq");
  if (!sequence) {
    problem = "the row gives no sequence length";
    return;
  }
  config.model.sequence = *sequence;
  if (contains(row.lower("task"), "lora")) problem = "adapters alone are trained (LoRA)";
  if (row.flag("cpu_offload").value_or(false)) config.train.optimizer.offload = true;
  if (problem.empty()) read_axes(row, config, problem);
  if (problem.empty() && !plannable(config)) problem = kTooLarge;
  if (problem.empty()) read_batch(row, platform, config, problem);
  if (problem.empty()) read_stages(row, platform, config, problem);
  if (problem.empty()) read_recompute(row, platform, config, problem);
  if (!problem.empty()) return;
  read_engine(row, platform, config, problem);
  read_numerics(row, platform, config);
  pad_vocabulary(platform, config);
  place_on_nodes(config);
}

}  // namespace nqd::planner::published
