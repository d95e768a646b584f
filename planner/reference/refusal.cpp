#include <algorithm>

#include "planner/estimate/memory/runtime_memory.h"
#include "planner/models/dimensions.h"
#include "planner/reference/reference_plan.h"
#include "planner/rules/legality.h"

namespace nqd::planner {
namespace {

using Refusal = std::optional<EngineRefusal>;

constexpr const char* kPlanOnly = "`nqd mesh-plan` plans it; to run here, ";

Refusal refuse(std::string what, const std::string& remedy) {
  return EngineRefusal{std::move(what), kPlanOnly + remedy};
}

std::string pair(const char* a, std::int64_t first, const char* b, std::int64_t second) {
  return std::string(a) + " = " + std::to_string(first) + " with " + b + " = " +
         std::to_string(second);
}

Refusal refused_model(const ModelSpec& model) {
  if (model.family != "gpt" && model.family != "llama" && model.family != "timeseries") {
    return refuse("model family `" + model.family + "`",
                  "use family gpt, llama or timeseries, such as `preset: byte-gpt-small`");
  }
  if (dimensions_of(model).mla) return refuse("latent attention", "set model.mla.kv_lora_rank: 0");
  if (model.mtp_layers > 0) return refuse("multi-token prediction", "set model.mtp_layers: 0");
  if (model.qk_norm) {
    return refuse("norms on queries and keys", "set model.qk_norm: false");
  }
  const bool classifies = dimensions_of(model).classifies();
  if (!model.causal && !classifies) {
    return refuse("attention that is not causal", "set model.causal: true");
  }
  if (model.tied_head && classifies) {
    return refuse("an encoder with a tied head", "set model.tied_head: false");
  }
  return {};
}

Refusal refused_mesh(const Config& c) {
  const ParallelSpec& mesh = c.parallel;
  if (mesh.cp > 1) return refuse("context parallelism", "set parallel.cp: 1");
  if (mesh.ep > 1) return refuse("expert parallelism", "set parallel.ep: 1");
  if (mesh.ranks() > kMostReferenceRanks) {
    return refuse("more than " + std::to_string(kMostReferenceRanks) + " ranks",
                  "choose a smaller mesh");
  }
  if (!rules::divides(mesh.tp, c.model.kv_heads)) {
    return refuse(pair("tp", mesh.tp, "kv_heads", c.model.kv_heads),
                  "choose a parallel.tp that divides kv_heads");
  }
  if (!rules::width_splits(c.model.ffn_hidden, mesh.tp)) {
    return refuse(pair("tp", mesh.tp, "ffn_hidden", c.model.ffn_hidden),
                  "choose a parallel.tp that divides ffn_hidden");
  }
  return {};
}

Refusal refused_numerics(const Config& c) {
  if (c.numerics.mode == collectives::Numerics::kFast || c.parallel.tp == 1) return {};
  const std::int64_t slices = c.numerics.tp_slices;
  if (!rules::canonical_slices(c.parallel.tp, slices) || !rules::slices_cut(c, slices)) {
    return refuse(pair("tp", c.parallel.tp, "numerics.tp_slices", slices) +
                      " in canonical numerics (NQD1263)",
                  "set numerics.mode: fast, or a tp_slices that cuts every width in equal parts");
  }
  return {};
}

Refusal refused_training(const TrainSpec& train) {
  if (train.precision == Precision::kFp8) {
    return refuse("precision `fp8`", "set train.precision to float32, bfloat16 or float16");
  }
  if (train.optimizer.offload) {
    return refuse("an offloaded optimizer", "set train.optimizer.offload: false");
  }
  if (train.runtime != Runtime::kNqd) {
    return refuse("the runtime `" + std::string(name(train.runtime)) + "`",
                  "set train.runtime: nqd");
  }
  return {};
}

Refusal refused_devices(const ClusterSpec& cluster) {
  if (!has_devices(cluster)) return {};
  return refuse("a plan for " +
                    (cluster.preset.empty() ? std::string("a cluster with a stated device peak")
                                            : "cluster `" + cluster.preset + "`") +
                    ": its ranks are CPU cores here",
                "pass --device cuda to `nqd train` on a host with GPUs, or set cluster.preset: "
                "cpu-host");
}

}  // namespace

std::optional<EngineRefusal> engine_refusal(const Config& config) {
  for (Refusal refusal : {refused_model(config.model), refused_training(config.train),
                          refused_devices(config.cluster)}) {
    if (refusal) return refusal;
  }
  // Only of such models are the widths known that a mesh divides.
  if (Refusal refusal = refused_mesh(config)) return refusal;
  return refused_numerics(config);
}

bool runs_on_reference_engine(const Config& config) { return !engine_refusal(config); }

}  // namespace nqd::planner
