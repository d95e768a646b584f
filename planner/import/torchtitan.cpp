// torchtitan's job config; names and defaults are those of torchtitan/config/job_config.py and the
// model sizes those of torchtitan/models/llama3 (github.com/pytorch/torchtitan).
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/config/suggest.h"
#include "planner/import/foreign_tree.h"
#include "planner/import/importers.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kNoPlace = "nqd has no such setting";

struct Flavor {
  std::string_view name;
  std::int64_t layers, hidden, heads, kv_heads, ffn_hidden, vocab;
};
// ffn_hidden: 8/3 · hidden · ffn_dim_multiplier, rounded up to multiple_of.
constexpr Flavor kLlama3[] = {{"debugmodel", 6, 256, 16, 16, 768, 2048},
                              {"8B", 32, 4096, 32, 8, 14336, 128256},
                              {"70B", 80, 8192, 64, 8, 28672, 128256},
                              {"405B", 126, 16384, 128, 8, 53248, 128256}};

// Sections have moved between versions: the key where it is, in the first section that has it.
class Job {
 public:
  Job(const Source& source, const YamlNode& tree, ImportDraft& draft)
      : root_(source, tree, "", draft), draft_(draft) {
    for (const YamlEntry& entry : tree.entries) {
      if (entry.value.kind != YamlNode::Kind::kMap) continue;
      sections_.emplace_back(entry.key, *root_.section(entry.key));
    }
  }

  // Null when there is no such section.
  ForeignTable* section(std::string_view name) {
    const auto found = std::find_if(sections_.begin(), sections_.end(),
                                    [&](const auto& section) { return section.first == name; });
    return found == sections_.end() ? nullptr : &found->second;
  }
  ForeignTable* holder(std::string_view key, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      ForeignTable* table = section(name);
      if (table != nullptr && table->has(key)) return table;
    }
    return nullptr;
  }
  std::optional<std::int64_t> degree(std::string_view key) {
    ForeignTable* table = holder(key, {"parallelism", "training", "experimental"});
    return table == nullptr ? std::nullopt : table->integer(key, {-1, 1 << 20});
  }
  std::vector<std::pair<std::string, ForeignTable>>& sections() { return sections_; }
  ForeignTable& root() { return root_; }
  ImportDraft& draft() { return draft_; }

 private:
  ForeignTable root_;
  ImportDraft& draft_;
  std::vector<std::pair<std::string, ForeignTable>> sections_;
};

void import_model(Job& job) {
  ForeignTable* model = job.section("model");
  if (model == nullptr) return;
  const std::string name = model->text("name").value_or("");
  if (name != "llama3") {
    model->drop("name", "nqd knows the sizes of llama3: give the model section yourself");
    return;
  }
  const std::string flavor = model->text("flavor").value_or("debugmodel");
  const auto found =
      std::find_if(std::begin(kLlama3), std::end(kLlama3),
                   [&](const Flavor& candidate) { return candidate.name == flavor; });
  if (found == std::end(kLlama3)) {
    std::vector<std::string_view> names;
    for (const Flavor& candidate : kLlama3) names.push_back(candidate.name);
    Diagnostic diagnostic = model->at(
        "flavor", "NQD2304", "nqd does not know llama3's flavor \"" + printable(flavor) + "\"");
    diagnostic.expected = "one of " + joined(names);
    job.draft().report(std::move(diagnostic));
    return;
  }
  model->set("name", "model.family", std::string("llama"));
  const std::string key = model->has("flavor") ? "flavor" : "name";
  const auto set = [&](std::string_view path, std::int64_t value) {
    model->derive(key, path, value, "of llama3 " + flavor);
  };
  set("model.layers", found->layers);
  set("model.hidden", found->hidden);
  set("model.heads", found->heads);
  set("model.kv_heads", found->kv_heads);
  set("model.ffn_hidden", found->ffn_hidden);
  set("model.vocab", found->vocab);
  model->derive(key, "model.rope_base", 500000.0, "of llama3 " + flavor);
}

// -1: the rest of the ranks.
std::int64_t shard_degree(Job& job, std::int64_t replicate, std::int64_t ranks) {
  ImportDraft& draft = job.draft();
  const std::int64_t asked = job.degree("data_parallel_shard_degree").value_or(-1);
  if (asked > 0) return asked;
  const std::int64_t others = replicate * draft.integer("parallel.tp", 1) *
                              draft.integer("parallel.pp", 1) * draft.integer("parallel.cp", 1);
  return ranks >= others ? ranks / others : 0;
}

// FSDP2 over the shard degree, copies of it over the replicate degree.
void import_data_parallel(Job& job, std::int64_t ranks) {
  ImportDraft& draft = job.draft();
  const std::int64_t replicate =
      std::max<std::int64_t>(job.degree("data_parallel_replicate_degree").value_or(1), 1);
  const std::int64_t shard = shard_degree(job, replicate, ranks);
  const std::string degrees = "replicate " + std::to_string(replicate) + ", shard " +
                              (shard > 0 ? std::to_string(shard) : std::string("unknown"));
  if (shard == 0) {
    draft.warn(job.root().at("parallelism", "NQD2315",
                             "how many ranks there are is not in the file: give --world-size"));
  } else {
    set_default(draft, "parallel.dp", replicate * shard, degrees);
  }
  const bool copies = replicate > 1;
  const bool sharded = shard != 1;
  const std::string engine = !sharded ? "ddp" : copies ? "hsdp" : "zero3";
  set_default(draft, "parallel.engine", engine, degrees);
  if (engine == "hsdp" && shard > 0) set_default(draft, "parallel.hsdp_shard", shard, degrees);
}

void import_schedule(Job& job) {
  constexpr std::string_view kKey = "pipeline_parallel_schedule";
  ForeignTable* table = job.holder(kKey, {"parallelism", "experimental"});
  if (job.draft().integer("parallel.pp", 1) == 1) return;
  set_default(job.draft(), "parallel.schedule", std::string("1f1b"),
              "the default of " + std::string(kKey));
  if (table == nullptr) return;
  for (const auto& [name, schedule] :
       {std::pair<std::string_view, std::string_view>{"1F1B", "1f1b"},
        {"GPipe", "gpipe"},
        {"Interleaved1F1B", "interleaved"},
        {"ZBVZeroBubble", "zb-v"}}) {
    if (!table->is_text(kKey, name)) continue;
    table->set(kKey, "parallel.schedule", std::string(schedule));
    // Two stages a rank is torchtitan's default for schedules that need several.
    if (schedule == "interleaved" || schedule == "zb-v") {
      table->derive(kKey, "parallel.vpp", std::int64_t{2}, "two stages a rank");
    }
  }
}

void import_mesh(Job& job, std::int64_t ranks) {
  constexpr std::string_view kAxes[][2] = {{"tensor_parallel_degree", "parallel.tp"},
                                           {"pipeline_parallel_degree", "parallel.pp"},
                                           {"context_parallel_degree", "parallel.cp"},
                                           {"expert_parallel_degree", "parallel.ep"},
                                           {"expert_tensor_parallel_degree", "parallel.expert_tp"}};
  for (const auto& [key, path] : kAxes) {
    ForeignTable* table = job.holder(key, {"parallelism", "training", "experimental"});
    if (table != nullptr) table->read(key, path);
  }
  import_data_parallel(job, ranks);
  import_schedule(job);
  if (job.draft().integer("parallel.tp", 1) > 1) {
    set_default(job.draft(), "parallel.sequence_parallel", true,
                "torchtitan's tensor parallelism has it");
  }
}

// With a pipeline, the local batch is cut into micro-batches; without one it is computed at once.
void import_batch(Job& job) {
  ImportDraft& draft = job.draft();
  ForeignTable* training = job.section("training");
  if (training == nullptr) return;
  const std::string_view key =
      training->has("local_batch_size") ? "local_batch_size" : "batch_size";
  const std::int64_t local = training->integer(key, {1, 1 << 16}).value_or(8);
  constexpr std::string_view kMicro = "pipeline_parallel_microbatch_size";
  ForeignTable* micro = job.holder(kMicro, {"parallelism", "experimental"});
  const std::int64_t dp = draft.integer("parallel.dp");
  if (draft.integer("parallel.pp", 1) > 1) {
    set_default(draft, "train.micro_batch_size", std::int64_t{1},
                "the default of " + std::string(kMicro));
    if (micro != nullptr) micro->read(kMicro, "train.micro_batch_size");
  } else {
    training->derive(key, "train.micro_batch_size", local, "sequences");
  }
  const std::int64_t global = training->integer("global_batch_size", {-1, 1 << 30}).value_or(-1);
  if (global > 0) {
    training->set("global_batch_size", "train.global_batch_size", global);
  } else if (dp > 0) {
    training->derive(key, "train.global_batch_size", local * dp, "· dp");
  }
}

void import_training(Job& job) {
  ImportDraft& draft = job.draft();
  set_default(draft, "train.runtime", std::string("fsdp2"), "the file is torchtitan's");
  set_default(draft, "train.attention", std::string("flash"), "torchtitan's attention");
  set_default(draft, "train.precision", std::string("bfloat16"),
              "the default of mixed_precision_param");
  set_default(draft, "train.gradient_precision", std::string("float32"),
              "the default of mixed_precision_reduce");
  import_batch(job);
  ForeignTable* training = job.section("training");
  if (training == nullptr) return;
  training->read("seq_len", "model.sequence");
  training->read("steps", "train.steps");
  training->read("max_norm", "train.optimizer.grad_clip");
  training->read("seed", "train.seed");
  for (const auto& [key, path] :
       {std::pair<std::string_view, std::string_view>{"mixed_precision_param", "train.precision"},
        {"mixed_precision_reduce", "train.gradient_precision"}}) {
    if (training->has(key)) training->read(key, path);
  }
}

void import_recompute(Job& job) {
  constexpr std::string_view kPath = "train.recompute";
  set_default(job.draft(), kPath, std::string("selective"),
              "the default of activation_checkpoint.mode");
  ForeignTable* table = job.section("activation_checkpoint");
  if (table == nullptr) return;
  if (table->is_text("mode", "full") || table->is_text("mode", "none")) {
    table->set("mode", kPath, table->text("mode").value_or("none"));
    table->take("selective_ac_option");
  } else if (table->is_text("mode", "selective")) {
    table->derive("mode", kPath, std::string("selective"), "the nearest to it");
    table->drop("mode",
                "torchtitan recomputes all but the matrix products, nqd's selective the "
                "attention core");
  }
  table->drop_rest({}, "nqd recomputes nothing, the attention core or whole layers");
}

// torchtitan/components/lr_scheduler.py; without decay_ratio all steps behind the warm-up decay.
void import_schedule(ForeignTable& t) {
  constexpr std::string_view kSchedule = "train.optimizer.schedule";
  constexpr std::string_view kDecay = "train.optimizer.decay_steps";
  constexpr std::string_view kShape = "train.optimizer.decay_shape";
  ImportDraft& draft = t.draft();
  const std::int64_t steps = draft.integer("train.steps");
  const std::int64_t left = steps - draft.integer("train.optimizer.warmup_steps");
  const bool cosine = t.is_text("decay_type", "cosine");
  if (cosine && !t.has("decay_ratio")) {
    return t.set("decay_type", kSchedule, std::string("cosine"));
  }
  if (cosine || left <= 0 || (!t.has("decay_type") && !t.has("decay_ratio"))) return;
  const bool root = t.is_text("decay_type", "sqrt");
  if (t.is_text("decay_type", "linear") || root) {
    t.set("decay_type", kSchedule, std::string("wsd"));
    t.set("decay_type", kShape, std::string(root ? "1-sqrt" : "linear"));
    t.derive("decay_type", kDecay, left, "of the steps after warm-up");
  }
  const std::optional<double> share = t.number("decay_ratio", {0, 1});
  if (!share) return;
  t.set("decay_ratio", kSchedule, std::string("wsd"));
  t.derive(
      "decay_ratio", kDecay,
      std::min(left, static_cast<std::int64_t>(std::llround(*share * static_cast<double>(steps)))),
      "of training.steps");
}

void import_optimizer(Job& job) {
  ImportDraft& draft = job.draft();
  if (ForeignTable* table = job.section("optimizer")) {
    if (table->is_text("name", "AdamW") || table->is_text("name", "Adam")) {
      table->set("name", "train.optimizer.kind", std::string("adamw"));
    }
    table->read("lr", "train.optimizer.learning_rate");
    table->read("eps", "train.optimizer.epsilon");
    table->read("beta1", "train.optimizer.beta1");
    table->read("beta2", "train.optimizer.beta2");
    table->read("weight_decay", "train.optimizer.weight_decay");
    table->drop_rest({}, "how the update is computed does not change what the plan counts");
  }
  ForeignTable* warmup = job.holder("warmup_steps", {"lr_scheduler", "training"});
  if (warmup != nullptr && draft.has("train.steps")) {
    warmup->read("warmup_steps", "train.optimizer.warmup_steps");
  }
  if (ForeignTable* schedule = job.section("lr_scheduler")) import_schedule(*schedule);
}

void import_float8(Job& job) {
  ForeignTable* model = job.section("model");
  ForeignTable* float8 = job.section("float8");
  const YamlEntry* converters = model == nullptr ? nullptr : model->take("converters");
  if (converters != nullptr) {
    const auto& items = converters->value.items;
    const bool asked = std::any_of(items.begin(), items.end(),
                                   [](const YamlNode& item) { return item.text == "float8"; });
    if (asked) model->set("converters", "train.precision", std::string("fp8"));
    if (!asked && !items.empty()) model->drop("converters", std::string(kNoPlace));
  }
  if (float8 == nullptr) return;
  if (float8->boolean("enable_float8_linear")) {
    float8->set("enable_float8_linear", "train.precision", std::string("fp8"));
  }
  float8->drop_rest({}, "float8 recipes do not change what the plan counts");
}

}  // namespace

void import_torchtitan(const Source& source, std::int64_t ranks, ImportDraft& draft) {
  const std::optional<YamlNode> tree = parse_toml(source, draft.diagnostics());
  if (!tree) return;
  Job job(source, *tree, draft);
  import_model(job);
  import_mesh(job, ranks);
  import_training(job);
  import_recompute(job);
  import_optimizer(job);
  import_float8(job);
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"job", "no part of a plan"},
      {"profiling", "logging has no part in a plan"},
      {"metrics", "logging has no part in a plan"},
      {"checkpoint", "checkpoints have no part in a plan"},
      {"comm", "time-outs have no part in a plan"},
      {"validation", "evaluation has no part in a plan"},
      {"compile", "kernels follow from train.runtime and the stack"},
      {"lr_scheduler", "nqd's schedules are constant, cosine and wsd, of its own minimum"}};
  for (auto& section : job.sections()) {
    const auto found =
        std::find_if(std::begin(kReasons), std::end(kReasons),
                     [&](const auto& reason) { return reason.first == section.first; });
    section.second.drop_rest({}, found == std::end(kReasons) ? kNoPlace : found->second);
  }
  job.root().drop_rest({}, kNoPlace);
}

}  // namespace nqd::planner
