#include <doctest/doctest.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "tests/planner/import/imported.h"

namespace nqd::planner {
namespace {

// A complete command line, to which a test adds.
const std::string kBase =
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --vocab-size 1024 "
    "--micro-batch-size 1 --nnodes 1 --nproc-per-node 8 ";

ImportResult import_base(const std::string& more) {
  return import_text(ForeignFormat::kMegatron, kBase + more);
}

TEST_CASE("GPT-3 175B as its script says") {
  const Config c = imported(fixture_request(ForeignFormat::kMegatron, "gpt3_175b.sh"));
  CHECK(c.model.layers == 96);
  CHECK(c.model.ffn_hidden == 49152);
  CHECK(c.model.vocab == 51200);  // 50257 up to a multiple of 128 · 8
  CHECK(c.model.bias);
  CHECK(c.cluster.nodes == 16);
  CHECK(c.parallel.dp == 1);
  CHECK(c.parallel.tp == 8);
  CHECK(c.parallel.pp == 16);
  CHECK(c.parallel.order == MeshOrder::kDpThenPp);
  CHECK(c.parallel.engine == Engine::kDdp);
  CHECK(c.train.precision == Precision::kFloat16);
  CHECK(c.train.gradient_precision == Precision::kFloat16);
  CHECK(c.train.dropout);
  CHECK(c.train.optimizer.warmup_steps == 430);
  CHECK(c.train.optimizer.schedule == RateSchedule::kCosine);
  CHECK(c.train.runtime == Runtime::kMegatron);
}

TEST_CASE("Llama-3 405B: 126 layers over 16 stages, arguments in a variable") {
  const Config c = imported(fixture_request(ForeignFormat::kMegatron, "llama3_405b.sh"));
  CHECK(c.model.family == "llama");
  CHECK(c.model.kv_heads == 8);
  CHECK(c.parallel.pipeline_split.front() == 7);
  CHECK(c.parallel.pipeline_split.at(1) == 8);
  CHECK(c.parallel.pipeline_split.back() == 7);
  CHECK(c.parallel.dp == 128);
  CHECK(c.parallel.sequence_parallel);
  CHECK(c.train.precision == Precision::kFp8);
  CHECK(c.train.gradient_precision == Precision::kFloat32);
  CHECK(c.train.recompute == Recompute::kNone);  // the branch of another DTYPE
  CHECK(c.train.steps == 1000);
  CHECK(c.train.optimizer.warmup_steps == 100);
}

TEST_CASE("a variable from outside chooses the branch") {
  ImportRequest r = fixture_request(ForeignFormat::kMegatron, "llama3_405b.sh");
  r.definitions = {"DTYPE=bf16"};
  const Config c = imported(r);
  CHECK(c.train.precision == Precision::kBFloat16);
  CHECK(c.train.recompute == Recompute::kSelective);
}

TEST_CASE("Mixtral 8x7B: bare lines of arguments") {
  const Config c = imported(fixture_request(ForeignFormat::kMegatron, "mixtral_8x7b.sh"));
  CHECK(c.model.family == "moe");
  CHECK(c.model.moe.experts == 8);
  CHECK(c.model.moe.expert_hidden == 14336);
  CHECK(c.parallel.ep == 8);
  CHECK(c.parallel.vpp == 2);
  CHECK(c.parallel.schedule == Schedule::kInterleaved);
  CHECK_FALSE(c.train.dropout);
}

// https://github.com/NVIDIA/Megatron-LM/issues/468
TEST_CASE("layers that would silently be dropped are an error") {
  const std::string base =
      "--num-layers 80 --hidden-size 8192 --num-attention-heads 64 "
      "--seq-length 2048 --vocab-size 32000 --micro-batch-size 1 "
      "--pipeline-model-parallel-size 16 --nnodes 2 --nproc-per-node 8 "
      "--global-batch-size 64 ";
  const ImportResult result =
      import_text(ForeignFormat::kMegatron, base + "--num-layers-per-virtual-pipeline-stage 2");
  CHECK(result.exit_code == ExitCode::kNo);
  const Diagnostic* dropped = finding(result, "NQD2311");
  REQUIRE(dropped != nullptr);
  CHECK(dropped->message.find("64 of these 80 layers") != std::string::npos);
  CHECK(finding(result, "NQD1206") == nullptr);
  const ImportResult whole =
      import_text(ForeignFormat::kMegatron, base + "--num-layers-per-virtual-pipeline-stage 1");
  CHECK(loaded(whole).parallel.vpp == 5);
}

TEST_CASE("contradictions have codes") {
  CHECK(finding(import_base("--fp16 --bf16"), "NQD2310") != nullptr);
  CHECK(finding(import_base("--fp8-format hybrid"), "NQD2310") != nullptr);
  const ImportResult sequence = import_base("--sequence-parallel");
  CHECK(finding(sequence, "NQD2313") != nullptr);
  CHECK(sequence.exit_code == ExitCode::kOk);
  CHECK_FALSE(loaded(sequence).parallel.sequence_parallel);
  const ImportResult groups = import_base("--num-query-groups 2");
  CHECK(finding(groups, "NQD2313") != nullptr);
  CHECK(loaded(groups).model.kv_heads == 8);
  const ImportResult twice = import_base("--num-layers 4");
  CHECK(finding(twice, "NQD2313") != nullptr);
  CHECK(loaded(twice).model.layers == 4);
}

TEST_CASE("a rule of the mesh is reported at the argument") {
  const ImportResult result = import_base("\\\n  --tensor-model-parallel-size 3");
  CHECK(result.exit_code == ExitCode::kNo);
  const Diagnostic* diagnostic = finding(result, "NQD1203");
  REQUIRE(diagnostic != nullptr);
  CHECK(diagnostic->where.file == "input");
  CHECK(diagnostic->where.line == 2);
  CHECK(diagnostic->where.column == 3);
}

TEST_CASE("recomputation, stages and experts in Megatron's words") {
  CHECK(loaded(import_base("--recompute-activations")).train.recompute == Recompute::kSelective);
  const Config uniform = loaded(import_base(
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2"));
  CHECK(uniform.train.recompute == Recompute::kFull);
  CHECK(uniform.train.recompute_every == 2);
  const ImportResult some =
      import_base("--recompute-granularity full --recompute-method block --recompute-num-layers 2");
  CHECK(is_listed(some, "--recompute-num-layers"));
  const ImportResult all =
      import_base("--recompute-granularity full --recompute-method block --recompute-num-layers 8");
  CHECK(loaded(all).train.recompute_every == 1);
  CHECK(all.unrepresented.empty());
  const Config uneven =
      loaded(import_base("--pipeline-model-parallel-size 4 "
                         "--decoder-first-pipeline-num-layers 1 "
                         "--decoder-last-pipeline-num-layers 3"));
  CHECK(uneven.parallel.pipeline_split == std::vector<std::int64_t>{1, 2, 2, 3});
  const Config moe =
      loaded(import_base("--num-experts 4 --moe-layer-freq '([0]*3+[1]*5)' --swiglu"));
  CHECK(moe.model.moe.dense_layers == 3);
  CHECK(is_listed(import_base("--num-experts 4 --moe-layer-freq 2"), "--moe-layer-freq"));
}

TEST_CASE("a pipeline layout gives the layers of each stage") {
  const std::string pp2 = "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout ";
  using Split = std::vector<std::int64_t>;
  const auto split = [&](const std::string& layout) {
    const Config c = loaded(import_base("--global-batch-size 8 " + pp2 + "'" + layout + "'"));
    CHECK(c.parallel.vpp == std::ssize(c.parallel.pipeline_split) / 2);
    return c.parallel.pipeline_split;
  };
  CHECK(split("Et*3|tttttL") == Split{3, 5});
  CHECK(split("Et,(tt|)*3tL") == Split{3, 2, 2, 1});
  CHECK(split("E(t*2|)*3t*2,L") == Split{2, 2, 2, 2});
  // What nqd's stages cannot be is listed, with the reason.
  for (const std::string other : {"E|t*8L", "Et*4|t*4|L|", "t*4|Et*4L", "Et*4L|t*4"}) {
    INFO(other);
    CHECK(is_listed(import_base(pp2 + "'" + other + "'"), "--pipeline-model-parallel-layout"));
  }
  const auto objection = [](const std::string& arguments) {
    const ImportResult result = import_base(arguments);
    CHECK(result.exit_code == ExitCode::kNo);
    const Diagnostic* found = finding(result, "NQD2311");
    return found == nullptr ? "" : found->message + "; " + found->hint;
  };
  CHECK(objection(pp2 + "'Et*4|t*4|L'") ==
        "3 stages cannot be shared equally by 2 ranks of the pipeline; "
        "choose a --pipeline-model-parallel-size that divides 3");
  CHECK(objection(pp2 + "'Et*4|t*5L'") ==
        "the layout has 9 layers, --num-layers says 8; "
        "change --num-layers to 9, or the layers of the stages");
  CHECK(
      objection("--pipeline-model-parallel-layout 'Et*4|t*4L'") ==
      "2 stages need a pipeline; give --pipeline-model-parallel-size 2, or a layout of one stage");
  // What the hint to a text that is no layout proposes is one, of stages that nqd has.
  CHECK(split("Et*3|(tt|)*2tL") == Split{3, 2, 2, 1});
  for (const std::string bad : {"Et*x|tL", "(t|", "Et*99999999|tL", "tE|tL", "Et*4|q*4L", "E(t)4|L",
                                "(((t*60000)*60000|"}) {
    INFO(bad);
    const ImportResult result = import_base(pp2 + "'" + bad + "'");
    CHECK(result.exit_code == ExitCode::kUsage);
    REQUIRE(finding(result, "NQD1008") != nullptr);
    CHECK(finding(result, "NQD1008")->hint.starts_with("such as Et*3|(tt|)*2tL: "));
  }
}

TEST_CASE("learning-rate schedules and constants of the model") {
  const std::string rate = "--lr 1e-3 --min-lr 1e-5 --train-iters 100 --lr-warmup-iters 10 ";
  const auto load = [&](const std::string& arguments) {
    const ImportResult result = import_base(rate + arguments);
    const LoadedConfig loaded = load_config_text(result.yaml, "imported.yaml");
    INFO(result.yaml);
    REQUIRE(loaded.ok());
    return loaded.config;
  };
  const Config linear = load("--lr-decay-style linear");
  CHECK(linear.train.optimizer.schedule == RateSchedule::kWsd);
  CHECK(linear.train.optimizer.decay_steps == 90);
  CHECK(linear.train.optimizer.min_learning_rate == 1e-5);
  const Config wsd =
      load("--lr-decay-style WSD --lr-wsd-decay-style minus_sqrt --lr-wsd-decay-iters 25");
  CHECK(wsd.train.optimizer.schedule == RateSchedule::kWsd);
  CHECK(wsd.train.optimizer.decay_shape == DecayShape::kOneMinusRoot);
  CHECK(wsd.train.optimizer.decay_steps == 25);
  const Config constant = load("--lr-decay-style constant");
  CHECK(constant.train.optimizer.schedule == RateSchedule::kConstant);
  CHECK(constant.train.optimizer.min_learning_rate == 1e-3);
  const Config model = load(
      "--position-embedding-type rope --rotary-base 500000 --norm-epsilon 1e-6 "
      "--use-rope-scaling");
  CHECK(model.model.norm_epsilon == 1e-6);
  CHECK(model.model.rope_base == 500000);
  CHECK(model.model.rope_scaling == RopeScaling{.factor = 8});
}

TEST_CASE("every argument without a place is listed, with its line and a reason") {
  const ImportResult result =
      import_base("\\\n--rotary-base 500000 \\\n--frobnicate 1 2 --log-interval 5");
  REQUIRE(result.unrepresented.size() == 3);
  CHECK(result.unrepresented[1].key == "--frobnicate");
  CHECK(result.unrepresented[1].value == "[1, 2]");
  CHECK(result.unrepresented[1].where.line == 3);
  for (const UnrepresentedKey& key : result.unrepresented) {
    CHECK_FALSE(key.reason.empty());
    CHECK(result.yaml.find(key.key) != std::string::npos);
  }
  const ImportResult misspelt = import_base("--tensor-modle-parallel-size 2");
  REQUIRE(finding(misspelt, "NQD2317") != nullptr);
  CHECK(finding(misspelt, "NQD2317")->hint == "did you mean --tensor-model-parallel-size?");
}

TEST_CASE("bad values name the place, what is expected and what stands there") {
  const ImportResult result = import_base("--context-parallel-size two");
  CHECK(result.exit_code == ExitCode::kUsage);
  CHECK(result.yaml.empty());
  const Diagnostic* diagnostic = finding(result, "NQD1008");
  REQUIRE(diagnostic != nullptr);
  CHECK(diagnostic->where.line == 1);
  CHECK(diagnostic->expected == "an integer from 1 to 4096");
  CHECK(diagnostic->got == "string \"two\"");
  CHECK(import_base("--swiglu 3").exit_code == ExitCode::kUsage);
  CHECK(import_base("--pipeline-model-parallel-size 0").exit_code == ExitCode::kUsage);
  CHECK(import_base("--lr").exit_code == ExitCode::kUsage);
  CHECK(import_text(ForeignFormat::kMegatron, "echo hello").exit_code == ExitCode::kUsage);
  CHECK(import_text(ForeignFormat::kMegatron, "").exit_code == ExitCode::kUsage);
}

TEST_CASE("several files are one script, and a finding names its own file") {
  ImportRequest r;
  r.format = ForeignFormat::kMegatron;
  r.definitions = {"HEADS=7"};
  r.files.emplace_back("env.sh", "TP=2\nSIZE=512\n");
  r.files.emplace_back("run.sh", "X=1\n" + kBase +
                                     "--hidden-size $SIZE --num-attention-heads $HEADS "
                                     "--tensor-model-parallel-size $TP");
  const ImportResult result = import_config(r);
  CHECK(result.exit_code == ExitCode::kNo);
  const Diagnostic* heads = finding(result, "NQD1204");
  REQUIRE(heads != nullptr);
  CHECK(heads->where.file == "run.sh");
  CHECK(heads->where.line == 2);
  CHECK(result.yaml.find("run.sh:2") != std::string::npos);
}

}  // namespace
}  // namespace nqd::planner
