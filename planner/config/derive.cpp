#include <algorithm>
#include <initializer_list>
#include <utility>

#include "planner/config/resolution.h"
#include "planner/layout/layout.h"
#include "planner/mesh/fabric.h"
#include "planner/models/dimensions.h"

namespace nqd::planner {
namespace {

using Paths = std::initializer_list<std::string_view>;

// Sets `path` from `inputs` when it was not given.
template <typename Rule>
void derive(Resolution& r, std::string_view path, Paths inputs, const std::string& rule_text,
            Rule rule) {
  if (r.given(path) || !r.reliable(path)) return;
  const bool usable = std::all_of(inputs.begin(), inputs.end(),
                                  [&](std::string_view input) { return r.reliable(input); });
  if (!usable) {
    r.findings.unreliable.emplace_back(path);
    return;
  }
  r.set(path, Value(rule(r.draft.config)), "derived: " + rule_text);
}

// Defaults that a family sets: a llama or moe differs from a gpt by these alone.
void derive_family(Resolution& r) {
  const std::string& family = r.draft.config.model.family;
  const bool llama = family == "llama" || family == "moe";
  const bool encoder = family == "vit" || family == "timeseries";
  const auto set = [&](std::string_view path, const Value& value) {
    if (!r.given(path) && r.reliable(path)) {
      r.set(path, value, "derived: family " + family);
    }
  };
  if (llama) {
    set("model.gated_mlp", true);
    set("model.bias", false);
    set("model.norm", std::string("rmsnorm"));
    set("model.positions", std::string("rotary"));
    set("model.tied_head", false);
  }
  if (encoder) {
    set("model.causal", false);
    set("model.tied_head", false);
  }
  derive(r, "model.qkv_bias", {"model.bias"}, "bias", [](const Config& c) { return c.model.bias; });
}

void derive_model(Resolution& r) {
  ModelSpec& model = r.draft.config.model;
  if (model.family == "state" || !r.reliable("model.family")) return;
  if (is_transformer(model)) {
    derive_family(r);
    if (r.given("model.hidden")) {
      derive(r, "model.ffn_hidden", {"model.hidden"}, "4 · hidden",
             [](const Config& c) { return 4 * c.model.hidden; });
    }
    if (r.given("model.heads")) {
      derive(r, "model.kv_heads", {"model.heads"}, "heads",
             [](const Config& c) { return c.model.heads; });
    }
    if (model.family == "vit" && model.image.patch > 0) {
      derive(r, "model.sequence", {"model.image"}, "(image.size / image.patch)² + 1",
             [](const Config& c) { return dimensions_of(c.model).tokens; });
    }
    if (model.family == "moe") {
      derive(r, "model.moe.expert_hidden", {"model.ffn_hidden"}, "ffn_hidden",
             [](const Config& c) { return c.model.ffn_hidden; });
    }
    if (r.given("model.heads") && r.given("model.hidden") && model.heads > 0) {
      derive(r, "model.head_dim", {"model.hidden", "model.heads"}, "hidden / heads",
             [](const Config& c) { return c.model.hidden / c.model.heads; });
    }
  }
  // Not set(): the count is no key of such a model, so it is not listed as one.
  const auto& bad = r.findings.unreliable;
  const bool sound = std::none_of(bad.begin(), bad.end(), [](const std::string& path) {
    return path == "model" || path.starts_with("model.");
  });
  if (sound) model.parameters = static_cast<double>(parameter_count(model));
}

// Cluster presets give the 16-bit rates; float32 has its own.
void derive_rates(Resolution& r) {
  const bool float32 = r.draft.config.train.precision == Precision::kFloat32;
  if (!float32 || !r.reliable("train.precision") || !r.reliable("cluster")) return;
  const auto from_preset = [&](std::string_view path) {
    const auto origin = r.origins.find(path);
    return origin != r.origins.end() && origin->second.starts_with("preset ");
  };
  const bool override_peak = from_preset("cluster.peak_flops") ||
                             (!r.given("cluster.peak_flops") && r.draft.peak_flops_float32 > 0);
  if (!override_peak) return;
  r.set("cluster.peak_flops", Value(r.draft.peak_flops_float32),
        "derived: peak_flops_float32, for train.precision float32");
  if (from_preset("cluster.gemm_flops")) {
    r.set("cluster.gemm_flops", Value(0.0), "derived: the preset's rate is not float32's");
  }
}

void derive_mesh(Resolution& r) {
  const bool devices_given = r.given("cluster.preset") || r.given("cluster.nodes") ||
                             r.given("cluster.gpus_per_node") || !r.reliable("cluster");
  const auto per_replica = [](const Config& c) {
    return c.parallel.tp * c.parallel.cp * c.parallel.pp;
  };
  // A remainder leaves a mesh that is too small, which the mesh rules explain.
  if (r.given("parallel.world_size")) {
    derive(r, "parallel.dp", {"parallel.world_size", "parallel.tp", "parallel.cp", "parallel.pp"},
           "world_size / (tp · cp · pp)", [&](const Config& c) {
             return std::max<std::int64_t>(1, *c.parallel.world_size / per_replica(c));
           });
  } else if (devices_given) {
    derive(r, "parallel.dp",
           {"cluster", "cluster.nodes", "cluster.gpus_per_node", "parallel.tp", "parallel.cp",
            "parallel.pp"},
           "devices / (tp · cp · pp)", [&](const Config& c) {
             return std::max<std::int64_t>(1, c.cluster.devices() / per_replica(c));
           });
  }
  r.draft.config.parallel.world_size_given = r.given("parallel.world_size");
  derive(r, "parallel.world_size", {"parallel.dp", "parallel.tp", "parallel.cp", "parallel.pp"},
         "dp · tp · cp · pp", [](const Config& c) { return c.parallel.ranks(); });
  if (!devices_given) {
    derive(r, "cluster.gpus_per_node", {"parallel.world_size"}, "the mesh's ranks, on one node",
           [](const Config& c) { return *c.parallel.world_size; });
  }
  if (r.draft.config.parallel.engine == Engine::kHsdp) {
    derive(r, "parallel.hsdp_shard",
           {"cluster.gpus_per_node", "parallel.tp", "parallel.cp", "parallel.pp", "parallel.dp",
            "parallel.order"},
           "the largest divisor of dp that lies in a node",
           [](const Config& c) { return default_hsdp_shard(c.cluster, c.parallel); });
  }
}

void derive_learning_rate(Resolution& r) {
  const RateSchedule schedule = r.draft.config.train.optimizer.schedule;
  const double least = schedule == RateSchedule::kConstant ? 1 : 10;
  derive(r, "train.optimizer.min_learning_rate",
         {"train.optimizer.learning_rate", "train.optimizer.schedule"},
         least == 1 ? "learning_rate, which is constant" : "learning_rate / 10",
         [=](const Config& c) { return c.train.optimizer.learning_rate / least; });
  derive(r, "train.optimizer.warmup_steps", {"train.steps"}, "min(10, steps / 10)",
         [](const Config& c) { return std::min<std::int64_t>(10, c.train.steps / 10); });
  if (schedule != RateSchedule::kWsd) return;
  derive(r, "train.optimizer.decay_steps", {"train.steps", "train.optimizer.warmup_steps"},
         "min(steps / 5, steps − warmup_steps)", [](const Config& c) {
           const std::int64_t left = c.train.steps - c.train.optimizer.warmup_steps;
           return std::clamp<std::int64_t>(left, 0, c.train.steps / 5);
         });
}

void derive_training(Resolution& r) {
  derive(r, "train.global_batch_size", {"train.micro_batch_size", "parallel.dp"},
         "micro_batch_size · dp",
         [](const Config& c) { return c.train.micro_batch_size * c.parallel.dp; });
  // fp8 names the matrix products; gradients are never kept in 8 bits.
  derive(r, "train.gradient_precision", {"train.precision"}, "precision", [](const Config& c) {
    const bool fp8 = c.train.precision == Precision::kFp8;
    return std::string(name(fp8 ? Precision::kBFloat16 : c.train.precision));
  });
  derive(r, "train.attention", {"train.precision"}, "flash, except in float32",
         [](const Config& c) {
           const bool float32 = c.train.precision == Precision::kFloat32;
           return std::string(name(float32 ? Attention::kMaterialised : Attention::kFlash));
         });
  derive_learning_rate(r);
}

}  // namespace

void Resolution::set(std::string_view path, const Value& value, std::string origin) {
  store(*find_field(path), draft, value);
  origins[std::string(path)] = std::move(origin);
}

void derive_values(Resolution& resolution) {
  derive_model(resolution);
  derive_rates(resolution);
  derive_mesh(resolution);
  derive_training(resolution);
}

}  // namespace nqd::planner
