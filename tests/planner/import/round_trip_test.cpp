// Config -> another tool's text -> config.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/import/export.h"
#include "tests/planner/import/imported.h"

namespace nqd::planner {
namespace {

// Values under `sections`, as the loader resolved them.
std::string resolved(const LoadedConfig& loaded, const std::vector<std::string>& sections) {
  std::string text;
  for (const ResolvedValue& value : loaded.resolved) {
    for (const std::string& section : sections) {
      // A world size that was given and one that was derived are the same.
      if (value.path.starts_with(section)) text += value.path + " = " + value.value + "\n";
    }
  }
  return text;
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  // A config that every rule accepts and Megatron-LM can say.
  std::string config() {
    const std::int64_t tp = pick({1, 2, 4, 8});
    const std::int64_t pp = pick({1, 2, 4});
    const std::int64_t vpp = pp > 1 ? pick({1, 1, 2}) : 1;
    const std::int64_t dp = pick({1, 2, 4, 8});
    const std::int64_t ranks = tp * pp * dp;
    text_ = "model:\n";
    model(tp, pp, vpp, dp);
    const std::int64_t gpus = std::min<std::int64_t>(ranks, 8);
    line("cluster:\n  nodes", ranks / gpus);
    line("  gpus_per_node", gpus);
    text_ += "parallel:\n";
    line("  dp", dp);
    line("  tp", tp);
    line("  pp", pp);
    line("  vpp", vpp);
    if (moe_) line("  ep", dp);
    word("  schedule", vpp > 1 ? "interleaved" : "1f1b");
    word("  engine", moe_ ? "zero1" : choose({"ddp", "zero1", "zero2", "zero3"}));
    word("  order", choose({"tp-cp-dp-pp", "tp-cp-pp-dp"}));
    flag("  sequence_parallel", tp > 1 && coin());
    train(dp, pp);
    return text_;
  }

 private:
  void model(std::int64_t tp, std::int64_t pp, std::int64_t vpp, std::int64_t dp) {
    moe_ = pick({0, 0, 1}) == 1;
    const bool llama = moe_ || coin();
    word("  family", moe_ ? "moe" : llama ? "llama" : "gpt");
    line("  layers", pp * vpp * pick({1, 2, 3}));
    line("  hidden", 64 * tp * pick({1, 2}));
    line("  heads", 4 * tp);
    line("  kv_heads", coin() ? 4 * tp : 2 * tp);
    line("  ffn_hidden", 128 * tp);
    line("  vocab", 1000 * tp);
    line("  sequence", 128 * tp);
    word("  norm_epsilon", choose({"1e-05", "1e-06"}));
    std::string positions = "rotary";
    if (!llama) {
      flag("  tied_head", coin());
      flag("  bias", true);
      positions = choose({"learned", "rotary", "none"});
      word("  positions", positions);
    }
    if (positions == "rotary") {
      word("  rope_base", choose({"10000", "500000"}));
      if (coin()) word("  rope_scaling", "{factor: 8}");
    }
    if (!moe_) return;
    text_ += "  moe:\n";
    line("    experts", 2 * dp);
    line("    experts_per_token", 2);
    line("    expert_hidden", 64 * tp);
    if (coin()) line("    shared_expert_hidden", 64 * tp);
    flag("    router_bias", coin());
  }

  void train(std::int64_t dp, std::int64_t pp) {
    text_ += "train:\n";
    const std::int64_t micro = pick({1, 2});
    line("  micro_batch_size", micro);
    line("  global_batch_size", micro * dp * pp * pick({1, 2, 4}));
    line("  steps", pick({50, 1000}));
    const std::string precision = choose({"bfloat16", "float16", "float32", "fp8"});
    word("  precision", precision);
    const bool half = precision == "float16";
    word("  gradient_precision", half && coin()                        ? "float16"
                                 : (precision == "bfloat16" && coin()) ? "bfloat16"
                                                                       : "float32");
    const std::string recompute = choose({"none", "selective", "full"});
    word("  recompute", recompute);
    if (recompute == "full") line("  recompute_every", 1);
    word("  attention", choose({"flash", "materialised"}));
    flag("  dropout", coin());
    word("  runtime", "megatron");
    line("  bucket_bytes", 4 * pick({1000000, 40000000}));
    text_ += "  optimizer:\n";
    word("    kind", choose({"adamw", "sgd", "sgd-momentum"}));
    flag("    offload", coin());
    word("    learning_rate", choose({"3e-4", "0.00012345678901234567", "1e-05"}));
    const std::string schedule = choose({"constant", "cosine", "wsd"});
    word("    schedule", schedule);
    if (schedule != "constant") word("    min_learning_rate", choose({"1e-6", "0", "3e-06"}));
    line("    warmup_steps", pick({0, 7}));
    if (schedule == "wsd") {
      line("    decay_steps", pick({9, 43}));
      word("    decay_shape", choose({"linear", "1-sqrt"}));
    }
    word("    weight_decay", choose({"0.1", "0", "0.033"}));
    word("    grad_clip", choose({"0", "1.5"}));
  }

  std::int64_t pick(std::vector<std::int64_t> values) { return values[random_() % values.size()]; }
  std::string choose(std::vector<std::string> values) { return values[random_() % values.size()]; }
  bool coin() { return random_() % 2 == 0; }
  void word(const std::string& key, const std::string& value) {
    text_ += key + ": " + value + "\n";
  }
  void line(const std::string& key, std::int64_t value) { word(key, std::to_string(value)); }
  void flag(const std::string& key, bool value) { word(key, value ? "true" : "false"); }

  std::mt19937 random_;
  std::string text_;
  bool moe_ = false;
};

// What a config says but for the names of its model: a llama may be written as its shape.
std::string without_family(std::string text) {
  const std::size_t at = text.find("model.family");
  if (at != std::string::npos) text.erase(at, text.find('\n', at) + 1 - at);
  return text;
}

TEST_CASE("generated configs come back from Megatron's arguments") {
  int whole = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::string yaml = Generator(seed).config();
    INFO(yaml);
    const LoadedConfig first = load_config_text(yaml, "generated.yaml");
    if (!first.ok()) continue;
    const ExportResult text = export_config(first, ExportFormat::kMegatron);
    INFO(text.text);
    CHECK(text.inexpressible.empty());
    const ImportResult back = import_text(ForeignFormat::kMegatron, text.text);
    INFO(back.yaml);
    CHECK(back.unrepresented.empty());
    const LoadedConfig second = load_config_text(back.yaml, "imported.yaml");
    const std::vector<std::string> sections = {"model.", "parallel.", "train.", "cluster.nodes",
                                               "cluster.gpus_per_node"};
    REQUIRE(without_family(resolved(first, sections)) ==
            without_family(resolved(second, sections)));
    ++whole;
  }
  // The generator knows the rules: few of its configs break one.
  CHECK(whole >= 300);
}

TEST_CASE("an imported config, exported and imported again, is the same") {
  for (const std::string name : {"gpt3_175b.sh", "llama3_405b.sh", "mixtral_8x7b.sh"}) {
    const ImportResult first = import_config(fixture_request(ForeignFormat::kMegatron, name));
    const LoadedConfig a = load_config_text(first.yaml, "a");
    const ExportResult text = export_config(a, ExportFormat::kMegatron);
    CHECK(text.inexpressible.empty());
    const ImportResult back = import_text(ForeignFormat::kMegatron, text.text);
    const LoadedConfig b = load_config_text(back.yaml, "b");
    CHECK(resolved(a, {"model.", "parallel.", "train."}) ==
          resolved(b, {"model.", "parallel.", "train."}));
  }
}

TEST_CASE("models come back from a config.json") {
  for (const std::string name :
       {"gpt2.json", "llama3_8b.json", "mixtral_8x7b.json", "deepseek_v3.json", "qwen3_0.6b.json",
        "qwen3_30b_a3b.json", "qwen1.5_moe_a2.7b.json", "starcoder2_3b.json"}) {
    INFO(name);
    const ImportResult first = import_config(fixture_request(ForeignFormat::kHuggingFace, name));
    const LoadedConfig a = load_config_text(first.yaml, "a");
    const ExportResult text = export_config(a, ExportFormat::kHuggingFace);
    INFO(text.text);
    const ImportResult back = import_text(ForeignFormat::kHuggingFace, text.text);
    CHECK(back.unrepresented.empty());
    CHECK(resolved(a, {"model."}) == resolved(load_config_text(back.yaml, "b"), {"model."}));
  }
}

TEST_CASE("DeepSpeed's own words come back, the model is listed") {
  ImportRequest r = fixture_request(ForeignFormat::kDeepSpeed, "zero2.json");
  r.model = fixture("llama3_8b.json");
  const LoadedConfig first = load_config_text(import_config(r).yaml, "a");
  const ExportResult text = export_config(first, ExportFormat::kDeepSpeed);
  for (const InexpressibleKey& key : text.inexpressible) {
    INFO(key.path);
    CHECK((key.path.starts_with("model.") || key.path == "train.steps" ||
           key.path == "train.dropout" || key.path == "train.optimizer.warmup_steps"));
  }
  ImportRequest again = request(ForeignFormat::kDeepSpeed, text.text);
  again.model = fixture("llama3_8b.json");
  const LoadedConfig back = load_config_text(import_config(again).yaml, "b");
  for (const std::string section : {"model.", "parallel.", "train.micro", "train.global",
                                    "train.precision", "train.gradient", "train.bucket"}) {
    CHECK(resolved(first, {section}) == resolved(back, {section}));
  }
}

TEST_CASE("a pipeline of any stages comes back as a layout") {
  for (const std::string split : {"[4, 2, 1, 1]", "[1, 2, 3, 2]", "[3, 1, 1, 3]"}) {
    const LoadedConfig c = load_config_text(
        "model: {preset: gpt2-124m, layers: 8, mtp_layers: 1}\ncluster: {gpus_per_node: 2}\n"
        "parallel: {pp: 2, vpp: 2, schedule: interleaved, pipeline_split: " +
            split + "}\ntrain: {runtime: megatron, global_batch_size: 4}\n",
        "c.yaml");
    INFO(all_findings(c.diagnostics));
    REQUIRE(c.ok());
    const ExportResult text = export_config(c, ExportFormat::kMegatron);
    INFO(text.text);
    CHECK(text.inexpressible.empty());
    const Config back = loaded(import_text(ForeignFormat::kMegatron, text.text));
    CHECK(back.parallel.pipeline_split == c.config.parallel.pipeline_split);
    CHECK(back.parallel.vpp == 2);
  }
}

std::string listed_paths(const ExportResult& result) {
  std::string paths;
  for (const InexpressibleKey& key : result.inexpressible) paths += key.path + " ";
  return paths;
}

TEST_CASE("what a format cannot say is listed") {
  const LoadedConfig c = load_config_text(
      "model: {preset: gpt2-124m}\nparallel: {dp: 4, engine: hsdp, hsdp_shard: 2}\n"
      "train: {ema: true, bucket_bytes: 1001, threads: 1, seed: 1234}\n",
      "c.yaml");
  REQUIRE(c.ok());
  CHECK(listed_paths(export_config(c, ExportFormat::kMegatron)) ==
        "parallel.engine parallel.hsdp_shard train.runtime train.ema train.bucket_bytes "
        "train.threads ");
  // A value equal to the default was given all the same.
  CHECK(listed_paths(export_config(c, ExportFormat::kDeepSpeed)) ==
        "model.preset train.runtime train.ema train.seed train.bucket_bytes train.threads ");
  CHECK(listed_paths(export_config(c, ExportFormat::kHuggingFace)) ==
        "parallel.engine parallel.dp parallel.hsdp_shard train.ema train.seed train.bucket_bytes "
        "train.threads ");
}

TEST_CASE("a stack is listed as software, not as a machine") {
  const LoadedConfig c = load_config_text(
      "model: {preset: gpt2-124m}\nstack: {preset: megatron-core-2024}\n", "c.yaml");
  REQUIRE(c.ok());
  for (const ExportFormat format : {ExportFormat::kMegatron, ExportFormat::kDeepSpeed}) {
    std::string reason;
    for (const InexpressibleKey& key : export_config(c, format).inexpressible) {
      if (key.path == "stack.preset") reason = key.reason;
    }
    CHECK(reason == "what other software costs is no part of its arguments");
  }
}

// Every value of every shipped config is in the exported text, or listed.
TEST_CASE("no key of a shipped config is dropped") {
  int texts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NQD_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path().string());
    const LoadedConfig config = load_config(entry.path().string());
    REQUIRE(config.ok());
    const std::pair<ExportFormat, ForeignFormat> formats[] = {
        {ExportFormat::kMegatron, ForeignFormat::kMegatron},
        {ExportFormat::kHuggingFace, ForeignFormat::kHuggingFace},
        {ExportFormat::kDeepSpeed, ForeignFormat::kDeepSpeed}};
    for (const auto& [to, from] : formats) {
      const ExportResult text = export_config(config, to);
      if (text.text.empty()) {
        CHECK(listed_paths(text) == "model.family ");
        continue;
      }
      ++texts;
      const std::string listed = " " + listed_paths(text);
      const std::string back =
          resolved(load_config_text(import_text(from, text.text).yaml, "back"), {""});
      for (const ResolvedValue& value : config.resolved) {
        if (!config.places.contains(value.path) || value.path == "model.preset" ||
            value.path == "model.family") {
          continue;
        }
        INFO(value.path << " = " << value.value << "\n" << text.text);
        const bool said = back.find(value.path + " = " + value.value + "\n") != std::string::npos;
        CHECK((said || listed.find(" " + value.path + " ") != std::string::npos));
      }
    }
  }
  CHECK(texts >= 120);
}

}  // namespace
}  // namespace nqd::planner
