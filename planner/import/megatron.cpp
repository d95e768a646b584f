// Arguments of Megatron-LM; names and defaults are those of megatron/training/arguments.py
// (github.com/NVIDIA/Megatron-LM).
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/config/read_value.h"
#include "planner/import/importers.h"
#include "planner/import/megatron_arguments.h"

namespace nqd::planner {
namespace {

// Ranks by the launcher: the first of `keys` with a known number.
std::optional<std::int64_t> launched(ForeignTable& table,
                                     std::initializer_list<std::string_view> keys,
                                     std::string_view path) {
  for (const std::string_view key : keys) {
    const YamlEntry* entry = table.take(key);
    if (entry == nullptr || table.draft().has(path)) continue;
    std::string_view text = entry->value.text;
    // `--gres=gpu:8`, `--gpus-per-node=a100:8`.
    if (text.find(':') != std::string_view::npos && !key.starts_with("--nn")) {
      text.remove_prefix(text.rfind(':') + 1);
    }
    const std::optional<std::int64_t> value = parse_integer(text);
    if (!value) {
      Diagnostic diagnostic = table.at(
          key, "NQD2316", "how many is known only when the script runs: " + written(entry->value));
      diagnostic.hint = "give the variable a value, --define NAME=VALUE, or give --world-size";
      table.draft().warn(std::move(diagnostic));
      continue;
    }
    table.set(key, path, *value);
    return value;
  }
  return std::nullopt;
}

void import_world(ForeignTable& table) {
  launched(table, {"--nnodes", "--num-nodes", "--nodes", "-N"}, "cluster.nodes");
  launched(table,
           {"--nproc-per-node", "--ntasks-per-node", "--num-gpus", "--gpus-per-node", "--gres"},
           "cluster.gpus_per_node");
}

void import_engine(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  draft.set("train.runtime", std::string("megatron"),
            {"the arguments are Megatron-LM's", nullptr, {}});
  const bool sharded = megatron_flag(a, "--use-distributed-optimizer");
  set_default(draft, "parallel.engine", std::string("ddp"), "no --use-distributed-optimizer");
  if (sharded) a.set("--use-distributed-optimizer", "parallel.engine", std::string("zero1"));
  if (megatron_flag(a, "--use-torch-fsdp2")) {
    a.set("--use-torch-fsdp2", "parallel.engine", std::string("zero3"));
    a.set("--use-torch-fsdp2", "train.runtime", std::string("fsdp2"));
  }
  const bool fsdp = megatron_flag(a, "--use-megatron-fsdp");
  if (!megatron_flag(a, "--use-custom-fsdp") && !fsdp) return;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kStrategies = {
      {{"no_shard", "ddp"},
       {"optim", "zero1"},
       {"optim_grads", "zero2"},
       {"optim_grads_params", "zero3"}}};
  constexpr std::string_view kKey = "--data-parallel-sharding-strategy";
  set_default(draft, "parallel.engine", std::string("ddp"),
              "no_shard, the default of " + std::string(kKey));
  if (!a.has(kKey)) return;
  for (const auto& [strategy, engine] : kStrategies) {
    if (a.is_text(kKey, strategy)) a.set(kKey, "parallel.engine", std::string(engine));
  }
}

}  // namespace

bool megatron_flag(ForeignTable& arguments, std::string_view key) {
  const YamlEntry* entry = arguments.take(key);
  if (entry == nullptr) return false;
  if (entry->value.kind != YamlNode::Kind::kNull) {
    Diagnostic diagnostic = arguments.at(key, "NQD1008", std::string(key) + " takes no value");
    diagnostic.got = written(entry->value);
    arguments.draft().report(std::move(diagnostic));
  }
  return true;
}

void set_default(ImportDraft& draft, std::string_view path, Value value, std::string comment) {
  draft.set(path, std::move(value), {std::move(comment), nullptr, {}});
}

void import_megatron_mesh(ForeignTable& a, ForeignTable& launcher) {
  ImportDraft& draft = a.draft();
  import_world(launcher);
  import_world(a);
  a.read("--tensor-model-parallel-size", "parallel.tp");
  a.read("--pipeline-model-parallel-size", "parallel.pp");
  a.read("--context-parallel-size", "parallel.cp");
  a.read("--expert-model-parallel-size", "parallel.ep");
  a.read("--expert-tensor-parallel-size", "parallel.expert_tp");
  import_engine(a);
  set_default(draft, "parallel.order", std::string("tp-cp-dp-pp"), "Megatron-LM's order");
  if (megatron_flag(a, "--use-tp-pp-dp-mapping")) {
    a.set("--use-tp-pp-dp-mapping", "parallel.order", std::string("tp-cp-pp-dp"));
  }
  if (!megatron_flag(a, "--sequence-parallel")) return;
  if (draft.integer("parallel.tp", 1) > 1) {
    a.set("--sequence-parallel", "parallel.sequence_parallel", true);
    return;
  }
  draft.warn(a.at("--sequence-parallel", "NQD2313",
                  "--sequence-parallel has no effect without tensor parallelism: Megatron-LM turns "
                  "it off"));
}

void import_megatron(const Source& script, ImportDraft& draft) {
  const std::optional<MegatronArguments> found = megatron_arguments(script, draft.diagnostics());
  if (!found) return;
  ForeignTable arguments(script, found->program, "", draft);
  ForeignTable launcher(script, found->launcher, "", draft);
  import_megatron_mesh(arguments, launcher);
  import_megatron_model(arguments);
  import_megatron_stages(arguments);
  import_megatron_training(arguments);
  suggest_megatron_arguments(arguments, found->program);
  drop_megatron_rest(arguments, launcher);
}

}  // namespace nqd::planner
