#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/config/suggest.h"
#include "planner/import/importers.h"
#include "planner/import/megatron_arguments.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kData = "data and tokenizer: nqd's are under data:";
constexpr std::string_view kLogging = "logging has no part in a plan";
constexpr std::string_view kCheckpoint = "checkpoints have no part in a plan";
constexpr std::string_view kRouting = "how tokens are routed does not change what the plan counts";
constexpr std::string_view kOverlap = "what overlaps follows from train.runtime";
constexpr std::string_view kKernels = "kernels follow from train.runtime and the stack";
constexpr std::string_view kInitial = "initial weights do not change what the plan counts";
constexpr std::string_view kFp8 = "fp8 recipes do not change what the plan counts";
constexpr std::string_view kVersion = "which of Megatron-LM's own code paths runs";
constexpr std::string_view kLearning = "nqd warms up linearly and decays as a cosine";
constexpr std::string_view kPlace = "where processes meet has no part in a plan";

constexpr Reason kReasons[] = {
    {"--data-*", kData},
    {"--tokenizer-*", kData},
    {"--vocab-file", kData},
    {"--merge-file", kData},
    {"--split", kData},
    {"--mock-data", kData},
    {"--train-data-path", kData},
    {"--valid-data-path", kData},
    {"--test-data-path", kData},
    {"--dataloader-type", kData},
    {"--num-workers", kData},
    {"--num-dataset-builder-threads", kData},
    {"--reset-*", kData},
    {"--eod-mask-loss", kData},
    {"--create-attention-mask-in-dataloader", kData},
    {"--no-create-attention-mask-in-dataloader", kData},
    {"--log-*", kLogging},
    {"--tensorboard-*", kLogging},
    {"--wandb-*", kLogging},
    {"--timing-*", kLogging},
    {"--profile*", kLogging},
    {"--no-log-*", kLogging},
    {"--use-pytorch-profiler", kLogging},
    {"--record-memory-history", kLogging},
    {"--save*", kCheckpoint},
    {"--load*", kCheckpoint},
    {"--no-save-*", kCheckpoint},
    {"--no-load-*", kCheckpoint},
    {"--ckpt-*", kCheckpoint},
    {"--dist-ckpt-*", kCheckpoint},
    {"--use-dist-ckpt", kCheckpoint},
    {"--auto-detect-ckpt-format", kCheckpoint},
    {"--async-save", kCheckpoint},
    {"--finetune", kCheckpoint},
    {"--exit-*", kCheckpoint},
    {"--use-checkpoint-*", kCheckpoint},
    {"--override-opt-param-scheduler", kCheckpoint},
    {"--use-checkpoint-opt-param-scheduler", kCheckpoint},
    {"--eval-iters", "evaluation has no part in a plan"},
    {"--moe-*", kRouting},
    {"--overlap-*", kOverlap},
    {"--no-overlap-*", kOverlap},
    {"--tp-comm-*", kOverlap},
    {"--delay-*", kOverlap},
    {"--defer-*", kOverlap},
    {"--ddp-*", kOverlap},
    {"--align-*", kOverlap},
    {"--no-delay-*", kOverlap},
    {"--no-masked-softmax-fusion", kKernels},
    {"--no-bias-*", kKernels},
    {"--no-rope-fusion", kKernels},
    {"--no-gradient-accumulation-fusion", kKernels},
    {"--cross-entropy-*", kKernels},
    {"--use-fused-*", kKernels},
    {"--apply-layernorm-1p", kKernels},
    {"--enable-cuda-graph", kKernels},
    {"--cuda-graph-*", kKernels},
    {"--no-persist-layer-norm", kKernels},
    {"--manual-gc*", kKernels},
    {"--attention-softmax-in-fp32", kKernels},
    {"--no-query-key-layer-scaling", kKernels},
    {"--apply-query-key-layer-scaling", kKernels},
    {"--no-fused-kernel", kKernels},
    {"--init-*", kInitial},
    {"--rotary-*", "rotary constants do not change what the plan counts"},
    {"--use-rope-scaling", "rotary constants do not change what the plan counts"},
    {"--rope-*", "rotary constants do not change what the plan counts"},
    {"--no-rope-*", "rotary constants do not change what the plan counts"},
    {"--mscale*", "rotary constants do not change what the plan counts"},
    {"--fp8-*", kFp8},
    {"--first-last-layers-bf16", kFp8},
    {"--loss-scale*", kFp8},
    {"--initial-loss-scale", kFp8},
    {"--min-loss-scale", kFp8},
    {"--hysteresis", kFp8},
    {"--use-mcore-models", kVersion},
    {"--use-legacy-models", kVersion},
    {"--spec", kVersion},
    {"--lr-*", kLearning},
    {"--min-lr", kLearning},
    {"--start-weight-decay", kLearning},
    {"--end-weight-decay", kLearning},
    {"--weight-decay-incr-style", kLearning},
    {"--rampup-batch-size", "nqd plans the final batch size"},
    {"--num-distributed-optimizer-instances", "nqd shards the optimizer over all of dp"},
    {"--mtp-loss-scaling-factor", "a loss factor does not change what the plan counts"},
    {"--distributed-backend", kPlace},
    {"--distributed-timeout-minutes", kPlace},
    {"--master-*", kPlace},
    {"--node-rank", kPlace},
    {"--rdzv-*", kPlace},
    {"--rank", kPlace},
    {"--main-process-*", kPlace},
    {"--local-*", kPlace},
    {"--redirects", kPlace},
    {"--tee", kPlace},
    {"--max-restarts", kPlace},
};

constexpr std::string_view kNoPlace = "nqd has no such setting";

bool is_explained(std::string_view key) { return !reason_of(kReasons, key, {}).empty(); }

// Each costs a comparison with every known argument.
constexpr int kMaxSuggestions = 50;

}  // namespace

// A misspelt argument stops Megatron-LM; here it would be one more of those that nqd lacks.
void suggest_megatron_arguments(ForeignTable& a, const YamlNode& map) {
  const auto known = known_megatron_arguments();
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  int looked_up = 0;
  for (const YamlEntry& entry : map.entries) {
    const bool is_known = std::find(known.begin(), known.end(), entry.key) != known.end();
    if (is_known || is_explained(entry.key)) continue;
    if (++looked_up > kMaxSuggestions) return;
    const std::optional<std::string> meant = closest(entry.key, candidates);
    if (!meant || edit_distance(entry.key, *meant) > 2) continue;
    Diagnostic diagnostic = a.at(entry.key, "NQD2317", "nqd does not know " + printable(entry.key));
    diagnostic.hint = "did you mean " + *meant + "?";
    a.draft().warn(std::move(diagnostic));
  }
}

void drop_megatron_rest(ForeignTable& arguments, ForeignTable& launcher) {
  launcher.drop_rest(kReasons, "an option of the launcher");
  arguments.drop_rest(kReasons, kNoPlace);
}

}  // namespace nqd::planner
