#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "planner/config/field.h"
#include "planner/import/export_writers.h"
#include "planner/import/megatron_layout.h"

namespace nqd::planner {
namespace {

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789_-+=.,:/@%") == std::string::npos;
  return plain ? word : "'" + word + "'";
}

class Writer {
 public:
  explicit Writer(const Config& config) : c_(config) {}

  ExportResult run() {
    const ModelSpec& m = c_.model;
    if (m.family != "gpt" && m.family != "llama" && m.family != "moe") {
      list("model.family", m.family, "pretrain_gpt.py trains decoders over tokens");
      return std::move(result_);
    }
    model();
    attention();
    experts();
    mesh();
    stages();
    batch();
    precision();
    recompute();
    optimizer();
    others();
    result_.text = "torchrun --nnodes " + std::to_string(c_.cluster.nodes) + " --nproc-per-node " +
                   std::to_string(c_.cluster.gpus_per_node) + " pretrain_gpt.py";
    for (const std::string& argument : arguments_) result_.text += " \\\n    " + argument;
    result_.text += "\n";
    return std::move(result_);
  }

 private:
  void add(const std::string& flag) { arguments_.push_back(flag); }
  void add(const std::string& flag, const std::string& value) {
    arguments_.push_back(flag + " " + quoted(value));
  }
  void add(const std::string& flag, std::int64_t value) { add(flag, std::to_string(value)); }
  void add(const std::string& flag, double value) { add(flag, number_text(value)); }
  void add_if(bool given, const std::string& flag) {
    if (given) add(flag);
  }
  void list(std::string path, std::string value, std::string reason) {
    result_.inexpressible.push_back({std::move(path), std::move(value), std::move(reason)});
  }
  void list_if(bool given, std::string path, std::string value, std::string reason) {
    if (given) list(std::move(path), std::move(value), std::move(reason));
  }

  void model() {
    const ModelSpec& m = c_.model;
    add("--num-layers", m.layers);
    add("--hidden-size", m.hidden);
    add("--ffn-hidden-size", m.ffn_hidden);
    add("--num-attention-heads", m.heads);
    add("--seq-length", m.sequence);
    add("--max-position-embeddings", m.sequence);
    add("--vocab-size", m.vocab);
    add("--make-vocab-size-divisible-by", std::int64_t{1});
    add_if(m.gated_mlp, "--swiglu");
    add("--normalization", std::string(m.norm == Norm::kRmsNorm ? "RMSNorm" : "LayerNorm"));
    add("--norm-epsilon", m.norm_epsilon);
    add_if(!m.tied_head, "--untie-embeddings-and-output-weights");
    add_if(!m.bias, "--disable-bias-linear");
    add_if(!m.bias && m.qkv_bias, "--add-qkv-bias");
    list_if(m.bias && !m.qkv_bias, "model.qkv_bias", "false", "follows --disable-bias-linear");
    add("--position-embedding-type",
        std::string(m.positions == Positions::kLearned  ? "learned_absolute"
                    : m.positions == Positions::kRotary ? "rope"
                                                        : "none"));
    rotary();
    list_if(!m.causal, "model.causal", "false", "pretrain_gpt.py is causal");
    if (m.mtp_layers > 0) add("--mtp-num-layers", m.mtp_layers);
  }

  void rotary() {
    const ModelSpec& m = c_.model;
    if (m.positions != Positions::kRotary) return;
    add("--rotary-base", m.rope_base);
    if (m.rope_scaling.factor == 1) return;
    add("--use-rope-scaling");
    add("--rope-scaling-factor", m.rope_scaling.factor);
  }

  void attention() {
    const ModelSpec& m = c_.model;
    if (m.head_dim > 0) add("--kv-channels", m.head_dim);
    if (m.kv_heads != m.heads && m.kv_heads > 0) {
      add("--group-query-attention");
      add("--num-query-groups", m.kv_heads);
    }
    add_if(m.qk_norm && m.mla.kv_lora_rank == 0, "--qk-layernorm");
    if (m.mla.kv_lora_rank == 0) return;
    add("--multi-latent-attention");
    if (m.mla.q_lora_rank > 0) add("--q-lora-rank", m.mla.q_lora_rank);
    add("--kv-lora-rank", m.mla.kv_lora_rank);
    add("--qk-head-dim", m.mla.qk_nope_head_dim);
    add("--qk-pos-emb-head-dim", m.mla.qk_rope_head_dim);
    add("--v-head-dim", m.mla.v_head_dim);
  }

  void experts() {
    const MoeSpec& moe = c_.model.moe;
    if (c_.model.family != "moe" || moe.experts == 0) return;
    add("--num-experts", moe.experts);
    add("--moe-router-topk", moe.experts_per_token);
    if (moe.expert_hidden > 0) add("--moe-ffn-hidden-size", moe.expert_hidden);
    if (moe.shared_expert_hidden > 0) {
      add("--moe-shared-expert-intermediate-size", moe.shared_expert_hidden);
    }
    add_if(moe.shared_gate, "--moe-shared-expert-gate");
    add_if(moe.router_bias, "--moe-router-enable-expert-bias");
    if (moe.capacity_factor > 0) add("--moe-expert-capacity-factor", moe.capacity_factor);
    if (moe.dense_layers > 0 && moe.dense_layers < c_.model.layers) {
      add("--moe-layer-freq", "[0]*" + std::to_string(moe.dense_layers) + "+[1]*" +
                                  std::to_string(c_.model.layers - moe.dense_layers));
    }
  }

  void mesh() {
    const ParallelSpec& p = c_.parallel;
    add("--tensor-model-parallel-size", p.tp);
    add("--pipeline-model-parallel-size", p.pp);
    add("--context-parallel-size", p.cp);
    if (p.ep > 1) add("--expert-model-parallel-size", p.ep);
    if (p.expert_tp > 0 && p.expert_tp != p.tp) add("--expert-tensor-parallel-size", p.expert_tp);
    add_if(p.sequence_parallel, "--sequence-parallel");
    add_if(p.order == MeshOrder::kPpThenDp, "--use-tp-pp-dp-mapping");
    engine();
  }

  void engine() {
    const bool fsdp2 = c_.train.runtime == Runtime::kFsdp2;
    const auto sharded = [&](const std::string& strategy) {
      add("--use-distributed-optimizer");
      add("--use-megatron-fsdp");
      add("--data-parallel-sharding-strategy", strategy);
    };
    switch (c_.parallel.engine) {
      case Engine::kDdp:
        break;
      case Engine::kZero1:
        add("--use-distributed-optimizer");
        break;
      case Engine::kZero2:
        sharded("optim_grads");
        break;
      case Engine::kZero3:
        if (fsdp2) {
          add("--use-torch-fsdp2");
        } else {
          sharded("optim_grads_params");
        }
        break;
      case Engine::kHsdp:
        sharded("optim_grads_params");
        list("parallel.engine", "hsdp", "written as sharding over all of dp");
        list("parallel.hsdp_shard", std::to_string(c_.parallel.hsdp_shard),
             "Megatron-LM shards over all of dp");
        break;
    }
    const bool own =
        c_.train.runtime == Runtime::kMegatron || (fsdp2 && c_.parallel.engine == Engine::kZero3);
    list_if(!own, "train.runtime", std::string(name(c_.train.runtime)),
            "these are Megatron-LM's arguments");
  }

  void stages() {
    const ParallelSpec& p = c_.parallel;
    const Schedule usual = p.vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
    list_if(p.schedule != usual, "parallel.schedule", std::string(name(p.schedule)),
            "Megatron-LM has 1f1b, and interleaved with virtual stages");
    // A layout says how many virtual stages there are, and may not be given beside their number.
    if (!split() && p.vpp > 1) add("--num-virtual-stages-per-pipeline-rank", p.vpp);
  }

  // All chunks equal, but that embedding and loss may each take the place of a layer at their end.
  bool accounted_split() {
    const std::vector<std::int64_t>& all = c_.parallel.pipeline_split;
    const auto chunks = static_cast<std::size_t>(c_.parallel.pp * c_.parallel.vpp);
    if (all.size() != chunks || chunks < 3 || all[1] < 2) return false;
    const std::int64_t each = all[1];
    const bool even = std::all_of(all.begin() + 1, all.end() - 1,
                                  [&](std::int64_t layers) { return layers == each; });
    const std::int64_t embedding = each - all.front();
    const std::int64_t loss = each - all.back();
    const auto one = [](std::int64_t layers) { return layers == 0 || layers == 1; };
    if (!even || !one(embedding) || !one(loss) || embedding + loss == 0) return false;
    add_if(embedding == 1, "--account-for-embedding-in-pipeline-split");
    add_if(loss == 1, "--account-for-loss-in-pipeline-split");
    return true;
  }

  // First and last rank may differ from the rest, each rank's virtual stages being equal; anything
  // else is a layout, and then it returns true.
  bool split() {
    const std::vector<std::int64_t>& all = c_.parallel.pipeline_split;
    const auto pp = static_cast<std::size_t>(c_.parallel.pp);
    if (all.empty() || accounted_split()) return false;
    bool same = all.size() == pp * static_cast<std::size_t>(c_.parallel.vpp) && pp > 1;
    for (std::size_t i = pp; same && i < all.size(); ++i) same = all[i] == all[i - pp];
    for (std::size_t i = 2; same && i + 1 < pp; ++i) same = all[i] == all[1];
    if (!same) {
      add("--pipeline-model-parallel-layout", pipeline_layout(all, c_.model.mtp_layers));
      return true;
    }
    add("--decoder-first-pipeline-num-layers", all.front() * c_.parallel.vpp);
    add("--decoder-last-pipeline-num-layers", all[pp - 1] * c_.parallel.vpp);
    return false;
  }

  void batch() {
    add("--micro-batch-size", c_.train.micro_batch_size);
    add("--global-batch-size", c_.train.global_batch_size);
    add("--train-iters", c_.train.steps);
  }

  void precision() {
    const TrainSpec& t = c_.train;
    if (t.precision == Precision::kFloat16) add("--fp16");
    if (t.precision == Precision::kBFloat16 || t.precision == Precision::kFp8) add("--bf16");
    if (t.precision == Precision::kFp8) add("--fp8-format", std::string("hybrid"));
    const Precision gradient = t.gradient_precision;
    const bool wide_default = t.precision != Precision::kFloat16;
    if (gradient == Precision::kFloat32) {
      add_if(!wide_default, "--accumulate-allreduce-grads-in-fp32");
    } else if (gradient == Precision::kBFloat16 && t.precision != Precision::kFloat32) {
      add("--grad-reduce-in-bf16");
    } else {
      list_if(gradient != t.precision || wide_default, "train.gradient_precision",
              std::string(name(gradient)), "not with these weights");
    }
  }

  void recompute() {
    const TrainSpec& t = c_.train;
    if (t.recompute == Recompute::kNone) return;
    add("--recompute-granularity",
        std::string(t.recompute == Recompute::kFull ? "full" : "selective"));
    if (t.recompute != Recompute::kFull) return;
    add("--recompute-method", std::string("uniform"));
    add("--recompute-num-layers", t.recompute_every);
  }

  void optimizer() {
    const OptimizerSpec& o = c_.train.optimizer;
    add("--optimizer", std::string(o.kind == OptimizerKind::kAdamW ? "adam" : "sgd"));
    if (o.kind == OptimizerKind::kSgd) add("--sgd-momentum", std::int64_t{0});
    if (o.kind == OptimizerKind::kSgdMomentum) add("--sgd-momentum", o.beta1);
    add_if(o.offload, "--optimizer-cpu-offload");
    add("--lr", o.learning_rate);
    if (o.schedule != RateSchedule::kConstant) add("--min-lr", o.min_learning_rate);
    schedule();
    add("--lr-warmup-iters", o.warmup_steps);
    add("--weight-decay", o.weight_decay);
    add("--adam-beta1", o.beta1);
    add("--adam-beta2", o.beta2);
    add("--adam-eps", o.epsilon);
    add("--clip-grad", o.grad_clip);
  }

  void schedule() {
    const OptimizerSpec& o = c_.train.optimizer;
    const bool decays = o.schedule != RateSchedule::kWsd || o.decay_steps > 0;
    if (!decays) return add("--lr-decay-style", std::string("constant"));
    if (o.schedule != RateSchedule::kWsd) {
      return add("--lr-decay-style", std::string(name(o.schedule)));
    }
    add("--lr-decay-style", std::string("WSD"));
    add("--lr-wsd-decay-iters", o.decay_steps);
    add("--lr-wsd-decay-style",
        std::string(o.decay_shape == DecayShape::kLinear ? "linear" : "minus_sqrt"));
  }

  void others() {
    const TrainSpec& t = c_.train;
    add("--attention-backend", std::string(t.attention == Attention::kFlash ? "flash" : "unfused"));
    add("--attention-dropout", t.dropout ? 0.1 : 0.0);
    add("--hidden-dropout", t.dropout ? 0.1 : 0.0);
    add("--seed", t.seed);
    if (t.eval_every > 0) add("--eval-interval", t.eval_every);
    const std::int64_t gradient = t.gradient_precision == Precision::kFloat32 ? 4 : 2;
    if (t.bucket_bytes % gradient == 0) {
      add("--ddp-bucket-size", t.bucket_bytes / gradient);
    } else {
      list("train.bucket_bytes", std::to_string(t.bucket_bytes), "buckets are whole gradients");
    }
  }

  const Config& c_;
  std::vector<std::string> arguments_;
  ExportResult result_;
};

}  // namespace

ExportResult write_megatron(const Config& config) { return Writer(config).run(); }

}  // namespace nqd::planner
