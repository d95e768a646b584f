// One mistake, one message, with its code, place and hint.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/codes.h"
#include "planner/config/assignment.h"
#include "planner/config/config.h"
#include "planner/config/suggest.h"

namespace nqd::planner {
namespace {

const std::string kModel = "model: {preset: gpt2-124m}\n";

std::vector<Diagnostic> findings(const std::string& text, std::vector<std::string> overrides = {},
                                 const std::string& cluster_file = "") {
  return load_config_text(text, "t.yaml", {std::move(overrides), cluster_file}).diagnostics;
}

std::vector<std::string> codes(const std::vector<Diagnostic>& diagnostics) {
  std::vector<std::string> result;
  for (const Diagnostic& diagnostic : diagnostics) result.push_back(diagnostic.code);
  return result;
}

Diagnostic only(const std::vector<Diagnostic>& diagnostics) {
  std::string shown;
  for (const Diagnostic& diagnostic : diagnostics) shown += format(diagnostic);
  INFO(shown);
  REQUIRE(diagnostics.size() == 1);
  CHECK(find_code(diagnostics[0].code) != nullptr);
  return diagnostics[0];
}

Diagnostic only(const std::string& text) { return only(findings(text)); }

void check_place(const Diagnostic& diagnostic, int line, int column, int length) {
  CHECK(diagnostic.where.file == "t.yaml");
  CHECK(diagnostic.where.line == line);
  CHECK(diagnostic.where.column == column);
  CHECK(diagnostic.caret_length == length);
}

TEST_CASE("files that cannot be read") {
  for (const std::string path : {"/nonexistent/config.yaml", NQD_SOURCE_DIR "/configs"}) {
    const LoadedConfig loaded = load_config(path);
    const Diagnostic diagnostic = only(loaded.diagnostics);
    CHECK(diagnostic.code == "NQD1001");
    CHECK(diagnostic.where.file == path);
    CHECK_FALSE(loaded.ok());
  }
}

TEST_CASE("all findings come in one run, in the order of the file") {
  const std::vector<Diagnostic> all = findings(
      "train:\n"
      "  stepz: 5\n"
      "  seed: -1\n"
      "model: {preset: gpt2-124m}\n"
      "parallel:\n"
      "  engine: zero9\n"
      "extra: 1\n",
      {"train.ema=on"});
  CHECK(codes(all) ==
        std::vector<std::string>{"NQD1022", "NQD1006", "NQD1009", "NQD1010", "NQD1005"});
  CHECK(all[0].where.file == "--set");
  CHECK(all[0].where.line == 0);
}

TEST_CASE("a misspelt key does not also count as missing") {
  const Diagnostic diagnostic =
      only("model: {layers: 12, hiden: 768, heads: 12, vocab: 50257, sequence: 1024}\n");
  CHECK(diagnostic.code == "NQD1006");
  CHECK(diagnostic.hint == "did you mean hidden?");
  CHECK(only("modle: {preset: gpt2-124m}\n").code == "NQD1005");
}

TEST_CASE("rules are not judged on values that did not load") {
  CHECK(only(kModel + "cluster: {preset: dgx-h100}\nparallel: {tp: two, dp: 3}\n").code ==
        "NQD1008");
  CHECK(only(kModel + "cluster: {preset: dgx-h101}\nparallel: {tp: 3, dp: 3}\n").code == "NQD1012");
  CHECK(only("model: {preset: gpt2-124m, heads: x}\nparallel: {tp: 1, dp: 2}\n").code == "NQD1008");
  CHECK(only("model: {preset: nonsense}\nparallel: {pp: 7}\n").code == "NQD1012");
  CHECK(only(kModel + "train: {micro_batch_size: 0, global_batch_size: 3}\n").code == "NQD1009");
  CHECK(only(kModel + "parallel: 3\n").code == "NQD1004");
}

TEST_CASE("an unreliable value makes what derives from it unreliable") {
  CHECK(only(kModel + "train: {steps: x, optimizer: {warmup_steps: 500}}\n").code == "NQD1008");
  CHECK(only(kModel + "train: {optimizer: {learning_rate: -1, min_learning_rate: 1}}\n").code ==
        "NQD1009");
}

TEST_CASE("the key is marked for an unknown key and the value for a wrong one") {
  check_place(only(kModel + "train:\n  setps: 10\n"), 3, 3, 5);
  check_place(only(kModel + "train:\n  steps: \"10\" # ten\n"), 3, 10, 4);
  check_place(only(kModel + "train: {steps: many, seed: 1}\n"), 2, 16, 4);
  check_place(only(kModel + "train:\n  bucket_bytes: 25 megs\n"), 3, 17, 7);
}

TEST_CASE("did you mean: siblings, other tools' names, other sections") {
  CHECK(meant_path("stpes", "train") == "train.steps");
  CHECK(meant_path("n_embd", "model") == "model.hidden");
  CHECK(meant_path("lr", "train") == "train.optimizer.learning_rate");
  CHECK(meant_path("tp", "train") == "parallel.tp");
  CHECK(meant_path("bandwidth", "cluster.inter_node") ==
        "cluster.inter_node.bandwidth_bytes_per_s");
  CHECK(meant_path("optimizer", "model") == "train.optimizer");
  CHECK(meant_path("train", "model") == "train");
  CHECK(meant_path("completely_unrelated_thing", "train").empty());
  CHECK(only(kModel + "train: {train: 1}\n").hint ==
        "train is a section of its own, at the left margin");
  CHECK(only(kModel + "data: {lr: 1e-3}\n").hint == "learning_rate belongs under train.optimizer:");
}

TEST_CASE("did you mean: names of other tools for the keys of every axis") {
  const std::pair<const char*, const char*> names[] = {
      {"parallel: {context_parallel_size: 2}", "did you mean cp?"},
      {"parallel: {expert_model_parallel_size: 2}", "did you mean ep?"},
      {"parallel: {expert_tensor_parallel_size: 1}", "did you mean expert_tp?"},
      {"parallel: {use_tp_pp_dp_mapping: true}", "did you mean order?"},
      {"train: {recompute_granularity: full}", "did you mean recompute?"},
      {"train: {recompute_num_layers: 2}", "did you mean recompute_every?"},
      {"train: {use_flash_attn: true}", "did you mean attention?"},
      {"train: {optimizer: {cpu_offload: true}}", "did you mean offload?"},
      {"train: {framework: megatron}", "did you mean runtime?"},
  };
  for (const auto& [text, hint] : names) {
    INFO(text);
    CHECK(only(kModel + text + "\n").hint == hint);
  }
}

TEST_CASE("edit distance") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("steps", "setps") == 1);
  CHECK(edit_distance("GPT2", "gpt2") == 0);
  CHECK_FALSE(closest("xx", {"dp", "tp"}));
  CHECK(closest("dq", {"dp", "tp"}) == "dp");
  CHECK(closest("memory_band", {"memory_bandwidth_bytes_per_s", "nodes"}) ==
        "memory_bandwidth_bytes_per_s");
  CHECK_FALSE(closest(std::string(100'000, 'a'), {"dp"}));
}

struct ValueCase {
  std::string value;
  std::string code;
  std::string hint;
};

void check_values(const std::string& before, const std::string& after,
                  const std::vector<ValueCase>& cases) {
  for (const ValueCase& item : cases) {
    INFO(item.value);
    const Diagnostic diagnostic = only(kModel + before + item.value + after);
    CHECK(diagnostic.code == item.code);
    CHECK(diagnostic.hint == item.hint);
  }
}

TEST_CASE("integers") {
  check_values(
      "train: {steps: ", "}\n",
      {{"\"8\"", "NQD1008", "write `steps: 8`, without quotes"},
       {"eight", "NQD1008", ""},
       {"true", "NQD1008", ""},
       {"8.5", "NQD1008", ""},
       {"[8]", "NQD1008", ""},
       {"{a: 8}", "NQD1008", ""},
       {"1_000", "NQD1008", ""},
       {"0x10", "NQD1008", ""},
       {"1e3", "NQD1023", "write `steps: 1000`"},
       {"8.0", "NQD1023", "write `steps: 8`"},
       {"010", "NQD1023", "write `steps: 10`"},
       {"0", "NQD1009", "the nearest legal value is 1"},
       {"-3", "NQD1009", "the nearest legal value is 1"},
       {"99999999999999999999", "NQD1009", "the nearest legal value is 1000000000000"},
       {"1e400", "NQD1017", ""},
       {".nan", "NQD1017", ""},
       {"null", "NQD1029", "write a value after the colon, or remove the key for its default"}});
}

TEST_CASE("numbers and booleans") {
  check_values("train: {optimizer: {beta1: ", "}}\n",
               {{"1.0", "NQD1009", "write a value below 1"},
                {"-0.1", "NQD1009", "the nearest legal value is 0"},
                {"\"0.9\"", "NQD1008", "write `beta1: 0.9`, without quotes"},
                {"-.inf", "NQD1017", ""},
                {"true", "NQD1008", ""}});
  check_values("train: {ema: ", "}\n",
               {{"yes", "NQD1022", "write `ema: true`"},
                {"Off", "NQD1022", "write `ema: false`"},
                {"True", "NQD1022", "write `ema: true`"},
                {"1", "NQD1008", ""},
                {"\"true\"", "NQD1008", ""}});
}

TEST_CASE("quantities") {
  const std::string bytes = "units: B kB MB GB TB (powers of 1000), KiB MiB GiB TiB (1024)";
  check_values("train: {bucket_bytes: ", "}\n",
               {{"25 mb", "NQD1013", bytes},
                {"-5 MB", "NQD1013", bytes},
                {"0.1 B", "NQD1013", bytes},
                {"1.5", "NQD1013", ""},
                {"0", "NQD1009", "the nearest legal value is 1"},
                {"-1", "NQD1009", "the nearest legal value is 1"},
                {".inf", "NQD1017", ""},
                {"[1]", "NQD1008", ""}});
  check_values("cluster: {intra_node: {bandwidth_bytes_per_s: ", "}}\n",
               {{"450 GB", "NQD1013", "units: MB/s GB/s GiB/s, or bits: Mb/s Gb/s"}});
  check_values("cluster: {intra_node: {alpha_s: ", "}}\n",
               {{"3 parsecs", "NQD1013", "units: ns us ms s"},
                {"-3 us", "NQD1009", "the nearest legal value is 0"}});
}

TEST_CASE("a list of integers reports its first bad entry where it stands") {
  const Diagnostic diagnostic = only(kModel + "parallel: {pp: 2, pipeline_split: [6, six]}\n");
  CHECK(diagnostic.code == "NQD1008");
  check_place(diagnostic, 2, 39, 3);
}

TEST_CASE("--set findings") {
  const auto set = [](const std::string& flag) { return only(findings(kModel, {flag})); };
  CHECK(set("train.steps").code == "NQD1015");
  CHECK(set("=5").code == "NQD1015");
  CHECK(set("").code == "NQD1015");
  CHECK(set("train.stepz=5").code == "NQD1016");
  CHECK(set("train.stepz=5").hint == "did you mean train.steps?");
  CHECK(set("stepz=5").hint == "did you mean train.steps?");
  CHECK(set("tp=5").hint == "did you mean parallel.tp?");
  CHECK(set("train=5").hint == "train is a section; set one of its keys: train.KEY=VALUE");
  CHECK(set("train.steps=many").code == "NQD1008");
  CHECK(set("train.steps=").code == "NQD1029");
  CHECK(set("train.steps=[").code == "NQD1002");
  CHECK(set("train.steps=*x").code == "NQD1002");
  CHECK(set("model.preset=gpt9").code == "NQD1012");
  CHECK(set("parallel.tp=5").code == "NQD1204");
  CHECK(set("parallel.tp=5").where.file == "--set");
  for (const std::string flag : {"train.steps", "train.stepz=5", "train.steps=many"}) {
    CHECK(set(flag).where.file == "--set");
    CHECK(format(set(flag)).starts_with("--set: error["));
  }
}

TEST_CASE("model keys of each family") {
  CHECK(only("train: {steps: 5}\n").code == "NQD1028");
  CHECK(only("model:\n").code == "NQD1020");
  CHECK(only("model: {family: state}\n").message == "the model lacks parameters");
  CHECK(only("model: {layers: 2, hidden: 8}\n").message ==
        "the model lacks heads, vocab, sequence");
  CHECK(only("model: {preset: edsr-baseline-x2, layers: 32}\n").code == "NQD1021");
  CHECK(only("model: {preset: edsr-baseline-x2, family: gpt}\n").code == "NQD1014");
  CHECK(only("model: {famly: state, parameters: 8e9}\n").code == "NQD1006");
}

TEST_CASE("a long list of findings is cut and says so") {
  std::string text = kModel + "train:\n";
  for (int i = 0; i < 80; ++i) text += "  key_" + std::to_string(i) + ": 1\n";
  const std::vector<Diagnostic> all = findings(text);
  REQUIRE(all.size() == 51);
  CHECK(all.back().code == "NQD1031");
  CHECK(all.back().message == "30 more findings are not shown");
}

TEST_CASE("hostile text is echoed harmlessly") {
  const Diagnostic diagnostic = only(kModel + "train: {\"a\\x1b[31m\\n\": 1}\n");
  CHECK(diagnostic.message == "there is no key \"a?[31m\\n\" in train");
}

TEST_CASE("every code that the loader may print is explained") {
  for (int code = 1001; code <= 1032; ++code) {
    if (code == 1030) continue;  // not used
    CHECK_MESSAGE(find_code("NQD" + std::to_string(code)) != nullptr, code);
  }
  for (int code = 1201; code <= 1232; ++code) {
    CHECK_MESSAGE(find_code("NQD" + std::to_string(code)) != nullptr, code);
  }
}

}  // namespace
}  // namespace nqd::planner
