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

double parameters_of(const std::string& config) {
  const Config c = imported(request(ForeignFormat::kHuggingFace, config));
  return model_shape(c.model, c.train).parameters;
}

// What the tensors of the checkpoints on the Hugging Face hub sum to.
TEST_CASE("a config.json gives the published parameter count") {
  CHECK(parameters("gpt2.json") == 124439808);
  CHECK(parameters("llama3_8b.json") == 8030261248);
  CHECK(parameters("mixtral_8x7b.json") == 46702792704);
  Config v3 = imported(fixture_request(ForeignFormat::kHuggingFace, "deepseek_v3.json"));
  v3.model.mtp_layers = 0;  // the published count leaves the prediction module out
  CHECK(model_shape(v3.model, v3.train).parameters == 671026419200);
  // Qwen2.5-7B
  CHECK(parameters_of(R"({"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584,
    "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
    "vocab_size": 152064, "max_position_embeddings": 32768})") == 7615616512);
  // Mistral-7B-v0.1
  CHECK(parameters_of(R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 32000, "max_position_embeddings": 32768})") == 7241732096);
  CHECK(parameters("qwen3_0.6b.json") == 596049920);
  CHECK(parameters("qwen3_30b_a3b.json") == 30532122624);
  CHECK(parameters("qwen1.5_moe_a2.7b.json") == 14315784192);
  CHECK(parameters("starcoder2_3b.json") == 3030371328);
  // Gemma-2B
  CHECK(parameters_of(R"({"model_type": "gemma", "num_hidden_layers": 18, "hidden_size": 2048,
    "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 16384,
    "vocab_size": 256000, "max_position_embeddings": 8192})") == 2506172416);
  // Phi-3-mini-4k
  CHECK(parameters_of(R"({"model_type": "phi3", "num_hidden_layers": 32, "hidden_size": 3072,
    "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192,
    "vocab_size": 32064, "max_position_embeddings": 4096})") == 3821079552);
  // DeepSeek-V2-Lite
  CHECK(parameters_of(R"({"model_type": "deepseek_v2", "num_hidden_layers": 27, "hidden_size": 2048,
    "num_attention_heads": 16, "intermediate_size": 10944, "vocab_size": 102400,
    "max_position_embeddings": 163840, "q_lora_rank": null, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
    "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "n_shared_experts": 2,
    "first_k_dense_replace": 1})") == 15706484224);
  // Pythia-160M
  CHECK(parameters_of(R"({"model_type": "gpt_neox", "num_hidden_layers": 12, "hidden_size": 768,
    "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 50304,
    "max_position_embeddings": 2048})") == 162322944);
  // ViT-B/16 with 1000 classes
  CHECK(parameters_of(R"({"model_type": "vit", "num_labels": 1000})") == 86567656);
  // OPT-125M: 125,239,296, of which two rows of 768 positions are not counted
  CHECK(parameters_of(R"({"model_type": "opt", "num_hidden_layers": 12, "hidden_size": 768,
    "num_attention_heads": 12, "ffn_dim": 3072, "vocab_size": 50272,
    "max_position_embeddings": 2048})") == 125239296 - 2 * 768);
}

TEST_CASE("every model_type has a shape") {
  const std::string common =
      R"("num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
         "intermediate_size": 256, "max_position_embeddings": 128)";
  for (const std::string type : {"llama", "mistral", "qwen2", "qwen3", "gemma", "gpt_neox"}) {
    const Config c = imported(
        request(ForeignFormat::kHuggingFace, R"({"model_type": ")" + type + "\", " + common + "}"));
    CHECK(c.model.layers == 4);
    CHECK(c.model.positions == Positions::kRotary);
    CHECK(c.model.qkv_bias == (type == "qwen2" || type == "gpt_neox"));
    // Of a class that has a default of its own.
    CHECK(c.model.head_dim == (type == "qwen3" ? 128 : type == "gemma" ? 256 : 16));
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

TEST_CASE("key-value heads that are not given are those of the configuration class") {
  const auto kv_heads = [](const std::string& type, int heads, const std::string& more = "") {
    return imported(request(ForeignFormat::kHuggingFace,
                            R"({"model_type": ")" + type + R"(", "num_attention_heads": )" +
                                std::to_string(heads) + R"(, "hidden_size": )" +
                                std::to_string(heads * 64) + more +
                                R"(, "num_hidden_layers": 4, "vocab_size": 100,
                                "intermediate_size": 256, "max_position_embeddings": 128})"))
        .model.kv_heads;
  };
  CHECK(kv_heads("starcoder2", 24) == 2);
  CHECK(kv_heads("gemma", 32) == 16);
  CHECK(kv_heads("qwen2", 64) == 32);
  CHECK(kv_heads("qwen3", 64) == 32);
  CHECK(kv_heads("mistral", 32) == 8);
  CHECK(kv_heads("llama", 32) == 32);
  CHECK(kv_heads("qwen2", 28) == 28);  // 32 divide no 28 heads
  CHECK(kv_heads("qwen2", 64, R"(, "num_key_value_heads": null)") == 64);
  CHECK(kv_heads("qwen2", 64, R"(, "num_key_value_heads": 4)") == 4);
}

TEST_CASE("experts in some layers alone: the parameters are said to be others") {
  const auto reason = [](const std::string& key, const std::string& value) {
    const ImportResult result = import_text(
        ForeignFormat::kHuggingFace,
        R"({"model_type": "qwen3_moe", "num_hidden_layers": 4, "hidden_size": 256, "num_experts": 4,
            "num_attention_heads": 4, "max_position_embeddings": 128, "vocab_size": 100,
            "num_experts_per_tok": 2, "moe_intermediate_size": 64, "intermediate_size": 128, ")" +
            key + R"(": )" + value + "}");
    for (const UnrepresentedKey& listed : result.unrepresented) {
      if (listed.key == key) return listed.reason;
    }
    return std::string();
  };
  const std::string others =
      "nqd has experts in all layers behind the first dense ones: the parameters that it counts "
      "are not those of this model";
  CHECK(reason("decoder_sparse_step", "2") == others);
  CHECK(reason("mlp_only_layers", "[2]") == others);
  CHECK(reason("decoder_sparse_step", "1") == "");
  CHECK(reason("mlp_only_layers", "[0]") == "");
}

// The hub's configs hold every key; a fuzzer's do not.
TEST_CASE("experts without a width have that of the MLP") {
  const ImportResult result = import_text(
      ForeignFormat::kHuggingFace,
      R"({"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100,
          "num_attention_heads": 4, "max_position_embeddings": 128, "num_local_experts": 4,
          "num_experts_per_tok": 2})");
  CHECK(loaded(result).model.moe.expert_hidden == 256);
  const LoadedConfig none =
      load_config_text("model: {preset: mixtral-8x7b, moe: {expert_hidden: 0}}\n", "c.yaml");
  REQUIRE(none.diagnostics.size() == 1);
  CHECK(none.diagnostics.front().code == "NQD1033");
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
  // Inputs that toml++ itself does not expect.
  for (const std::string key : {"b.*", "b.", "b.é", "é", "b é", "\xEF\xBB\xBB"}) {
    INFO(key);
    CHECK(finding(import_text(ForeignFormat::kTorchTitan, "[a]\n" + key + " = 1\n"), "NQD2303") !=
          nullptr);
    CHECK(finding(import_text(ForeignFormat::kTorchTitan, "[" + key + "]\n"), "NQD2303") !=
          nullptr);
  }
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
