// DeepSpeed, Hugging Face and torchtitan.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "planner/models/shape.h"
#include "tests/planner/import/imported.h"

namespace nqd::planner {
namespace {

double parameters(const std::string& name) {
  const Config c = imported(fixture_request(ForeignFormat::kHuggingFace, name));
  return model_shape(c.model, c.train).parameters;
}

// The counts that the weights on the Hugging Face hub sum to; DeepSeek-V3's without its
// multi-token prediction module is 671,026,419,200 (its report says 671 B).
TEST_CASE("a config.json gives the published parameter count") {
  CHECK(parameters("gpt2.json") == 124439808);
  CHECK(parameters("llama3_8b.json") == 8030261248);
  CHECK(parameters("mixtral_8x7b.json") == 46702792704);
}

TEST_CASE("every model_type has a shape") {
  const std::string common =
      R"("num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
         "intermediate_size": 256, "max_position_embeddings": 128)";
  for (const std::string type : {"llama", "mistral", "qwen2", "gpt_neox"}) {
    const Config c = imported(
        request(ForeignFormat::kHuggingFace, R"({"model_type": ")" + type + "\", " + common + "}"));
    CHECK(c.model.layers == 4);
    CHECK(c.model.positions == Positions::kRotary);
    CHECK(c.model.qkv_bias == (type == "qwen2" || type == "gpt_neox"));
  }
  const ImportResult opt =
      import_text(ForeignFormat::kHuggingFace,
                  R"({"model_type": "opt", "ffn_dim": 256, "dropout": 0.1, )" + common + "}");
  CHECK(loaded(opt).model.ffn_hidden == 256);
  CHECK(finding(opt, "NQD2318") != nullptr);
  const ImportResult vit = import_text(
      ForeignFormat::kHuggingFace,
      R"({"model_type": "vit", "image_size": 224, "patch_size": 16, "id2label": {"0": "a", "1": "b"}})");
  CHECK(loaded(vit).model.image.classes == 2);
  const ImportResult unknown =
      import_text(ForeignFormat::kHuggingFace, R"({"model_type": "lama"})");
  CHECK(unknown.exit_code == ExitCode::kUsage);
  REQUIRE(finding(unknown, "NQD2304") != nullptr);
  CHECK(finding(unknown, "NQD2304")->hint == "did you mean llama?");
}

TEST_CASE("DeepSeek-V3: experts, latent attention, prediction module") {
  const Config c = imported(fixture_request(ForeignFormat::kHuggingFace, "deepseek_v3.json"));
  CHECK(c.model.moe.experts == 256);
  CHECK(c.model.moe.experts_per_token == 8);
  CHECK(c.model.moe.shared_expert_hidden == 2048);
  CHECK(c.model.moe.dense_layers == 3);
  CHECK(c.model.mla.kv_lora_rank == 512);
  CHECK(c.model.mla.qk_rope_head_dim == 64);
  CHECK(c.model.mtp_layers == 1);
}

TEST_CASE("DeepSpeed with a model: dp follows from the batch sizes") {
  ImportRequest r = fixture_request(ForeignFormat::kDeepSpeed, "zero2.json");
  r.model = fixture("llama3_8b.json");
  const ImportResult result = import_config(r);
  const Config c = loaded(result);
  CHECK(c.parallel.engine == Engine::kZero2);
  CHECK(c.parallel.dp == 8);  // 64 / (4 · 2)
  CHECK(c.train.precision == Precision::kFloat16);
  CHECK(c.train.bucket_bytes == 400000000);  // 2e8 gradients of 2 bytes
  CHECK(c.train.optimizer.offload);
  CHECK(c.train.optimizer.beta1 == 0.8);
  CHECK(c.model.layers == 32);
  CHECK(is_listed(result, "zero_optimization.overlap_comm"));
  CHECK(is_listed(result, "fp16.loss_scale"));
}

TEST_CASE("DeepSpeed: auto is listed, a missing model is said") {
  const ImportResult result =
      import_config(fixture_request(ForeignFormat::kDeepSpeed, "zero3_auto.json"));
  CHECK(result.exit_code == ExitCode::kOk);
  CHECK(finding(result, "NQD2315") != nullptr);
  CHECK(is_listed(result, "train_batch_size"));
  CHECK(is_listed(result, "optimizer.params.lr"));
  CHECK(is_listed(result, "bf16.enabled"));
  CHECK(result.yaml.find("engine: zero3") != std::string::npos);
}

TEST_CASE("DeepSpeed: batch sizes that contradict each other") {
  const std::string batch = R"("train_batch_size": 64, "gradient_accumulation_steps": 3,
                               "train_micro_batch_size_per_gpu": 4)";
  const ImportResult result = import_text(ForeignFormat::kDeepSpeed, "{" + batch + "}");
  CHECK(result.exit_code == ExitCode::kNo);
  CHECK(finding(result, "NQD2312") != nullptr);
  const ImportResult both = import_text(
      ForeignFormat::kDeepSpeed, R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})");
  CHECK(finding(both, "NQD2310") != nullptr);
}

TEST_CASE("torchtitan: Llama-3 jobs") {
  ImportRequest r = fixture_request(ForeignFormat::kTorchTitan, "llama3_8b.toml");
  r.world_size = 8;
  const ImportResult result = import_config(r);
  const Config c = loaded(result);
  CHECK(model_shape(c.model, c.train).parameters == 8030261248);
  CHECK(c.parallel.engine == Engine::kZero3);
  CHECK(c.parallel.dp == 8);
  CHECK(c.train.global_batch_size == 8);
  CHECK(c.train.gradient_precision == Precision::kFloat32);
  CHECK(c.train.runtime == Runtime::kFsdp2);
  CHECK(is_listed(result, "training.dataset"));
  CHECK(is_listed(result, "activation_checkpoint.mode"));

  r = fixture_request(ForeignFormat::kTorchTitan, "llama3_405b.toml");
  r.world_size = 512;
  const Config large = imported(r);
  CHECK(large.model.ffn_hidden == 53248);
  CHECK(large.parallel.tp == 8);
  CHECK(large.parallel.dp == 64);
  CHECK(large.parallel.sequence_parallel);
  CHECK(large.train.precision == Precision::kFp8);
  CHECK(large.train.recompute == Recompute::kFull);
}

TEST_CASE("torchtitan: replicas of shard groups, and a pipeline of micro-batches") {
  const Config c = loaded(import_text(ForeignFormat::kTorchTitan,
                                      "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\n"
                                      "local_batch_size = 8\nseq_len = 4096\n[parallelism]\n"
                                      "data_parallel_replicate_degree = 2\n"
                                      "data_parallel_shard_degree = 4\n"
                                      "pipeline_parallel_degree = 4\n"
                                      "pipeline_parallel_schedule = 'Interleaved1F1B'\n"));
  CHECK(c.parallel.engine == Engine::kHsdp);
  CHECK(c.parallel.hsdp_shard == 4);
  CHECK(c.parallel.dp == 8);
  CHECK(c.parallel.vpp == 2);
  CHECK(c.train.micro_batch_size == 1);
  CHECK(c.train.global_batch_size == 64);
}

TEST_CASE("syntax errors have a place; deep and large texts are refused") {
  const ImportResult comma = import_text(ForeignFormat::kDeepSpeed, "{\n  \"a\": 1,\n}");
  CHECK(comma.exit_code == ExitCode::kUsage);
  REQUIRE(finding(comma, "NQD2302") != nullptr);
  CHECK(finding(comma, "NQD2302")->where.line == 3);
  CHECK(finding(comma, "NQD2302")->where.column == 1);
  CHECK(finding(import_text(ForeignFormat::kDeepSpeed, "{\"a\": 1, \"a\": 2}"), "NQD1007") !=
        nullptr);
  CHECK(finding(import_text(ForeignFormat::kDeepSpeed, "[1]"), "NQD1004") != nullptr);
  const ImportResult toml = import_text(ForeignFormat::kTorchTitan, "[a]\nb = \n");
  REQUIRE(finding(toml, "NQD2303") != nullptr);
  CHECK(finding(toml, "NQD2303")->where.line == 2);
  const ImportResult twice = import_text(ForeignFormat::kTorchTitan, "[a]\nb = 1\nb = 2\n");
  CHECK(finding(twice, "NQD2303") != nullptr);

  const std::string arrays(500000, '[');
  CHECK(finding(import_text(ForeignFormat::kDeepSpeed, "{\"a\": " + arrays), "NQD1024") != nullptr);
  CHECK(finding(import_text(ForeignFormat::kTorchTitan, "a = " + arrays), "NQD2303") != nullptr);
  std::string dots = "a";
  for (int i = 0; i < 200000; ++i) dots += ".a";
  CHECK(finding(import_text(ForeignFormat::kTorchTitan, "[" + dots + "]"), "NQD1024") != nullptr);
  CHECK(finding(import_text(ForeignFormat::kTorchTitan, dots + " = 1"), "NQD1024") != nullptr);
  for (const ForeignFormat format : {ForeignFormat::kMegatron, ForeignFormat::kDeepSpeed,
                                     ForeignFormat::kHuggingFace, ForeignFormat::kTorchTitan}) {
    CHECK(finding(import_text(format, std::string(2 << 20, ' ')), "NQD1024") != nullptr);
    CHECK(finding(import_text(format, "\xFF\xFE"), "NQD1026") != nullptr);
  }
}

}  // namespace
}  // namespace nqd::planner
