// Constants of a model's function and schedules of the learning rate, of every format but
// Megatron-LM's.
#include <doctest/doctest.h>

#include <string>

#include "tests/planner/import/imported.h"

namespace nqd::planner {
namespace {

ModelSpec hugging_face(const std::string& type, const std::string& more) {
  return imported(request(ForeignFormat::kHuggingFace, R"({"model_type": ")" + type +
                                                           R"(", "num_attention_heads": 4,
                              "hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 100,
                              "num_local_experts": 4, "num_experts_per_tok": 2,
                              "intermediate_size": 256, "max_position_embeddings": 128)" +
                                                           more + "}"))
      .model;
}

bool says(const ImportResult& result, const std::string& line) {
  INFO(result.yaml);
  const bool found = result.yaml.find(line) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("Hugging Face: epsilon and rotary positions, of the file or of the class") {
  const std::string llama31 =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 4096, "rope_type": "llama3")";
  ModelSpec m = hugging_face("llama", R"(, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
                                          "rope_scaling": {)" +
                                          llama31 + "}");
  CHECK(m.norm_epsilon == 1e-5);
  CHECK(m.rope_base == 500000);
  CHECK(m.rope_scaling == RopeScaling{8, 1, 4, 4096});
  m = hugging_face("llama", R"(, "rope_parameters": {"rope_theta": 250000.0, )" + llama31 + "}");
  CHECK(m.norm_epsilon == 1e-6);
  CHECK(m.rope_base == 250000);
  CHECK(m.rope_scaling.factor == 8);
  m = hugging_face("llama", R"(, "rope_scaling": null)");
  CHECK(m.rope_base == 10000);
  CHECK(m.rope_scaling == RopeScaling{});
  m = hugging_face("mixtral", "");
  CHECK(m.norm_epsilon == 1e-5);
  CHECK(m.rope_base == 1e6);
  CHECK(hugging_face("gpt_neox", R"(, "rotary_emb_base": 25000)").rope_base == 25000);

  const ImportResult yarn =
      import_text(ForeignFormat::kHuggingFace,
                  R"({"model_type": "llama", "num_attention_heads": 4, "hidden_size": 256,
                      "num_hidden_layers": 4, "vocab_size": 100, "intermediate_size": 256,
                      "max_position_embeddings": 128,
                      "rope_scaling": {"type": "yarn", "factor": 4.0}})");
  CHECK(is_listed(yarn, "rope_scaling.type"));
  CHECK(is_listed(yarn, "rope_scaling.factor"));
  CHECK(loaded(yarn).model.rope_scaling == RopeScaling{});
}

TEST_CASE("DeepSpeed: schedules of the learning rate") {
  const auto scheduler = [](const std::string& type) {
    return import_text(ForeignFormat::kDeepSpeed,
                       R"({"scheduler": {"type": ")" + type +
                           R"(", "params": {"warmup_num_steps": 20, "total_num_steps": 100}}})");
  };
  says(scheduler("WarmupLR"), "schedule: constant");
  says(scheduler("WarmupCosineLR"), "schedule: cosine");
  const ImportResult decay = scheduler("WarmupDecayLR");
  says(decay, "schedule: wsd");
  says(decay, "decay_steps: 80");
  says(decay, "min_learning_rate: 0");
  CHECK(is_listed(scheduler("OneCycle"), "scheduler.type"));
}

TEST_CASE("torchtitan: schedules of the learning rate, and Llama 3's rotary base") {
  const auto job = [](const std::string& schedule) {
    return loaded(import_text(ForeignFormat::kTorchTitan,
                              "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n"
                              "[training]\nsteps = 100\nseq_len = 256\nlocal_batch_size = 1\n"
                              "[parallelism]\ndata_parallel_shard_degree = 2\n"
                              "[lr_scheduler]\nwarmup_steps = 10\n" +
                                  schedule));
  };
  const Config root = job("decay_ratio = 0.25\ndecay_type = \"sqrt\"\n");
  CHECK(root.model.rope_base == 500000);
  CHECK(root.train.optimizer.schedule == RateSchedule::kWsd);
  CHECK(root.train.optimizer.decay_shape == DecayShape::kOneMinusRoot);
  CHECK(root.train.optimizer.decay_steps == 25);
  CHECK(job("decay_type = \"linear\"\n").train.optimizer.decay_steps == 90);
  CHECK(job("decay_ratio = 0.95\n").train.optimizer.decay_steps == 90);
  CHECK(job("decay_type = \"cosine\"\n").train.optimizer.schedule == RateSchedule::kCosine);
}

}  // namespace nqd::planner
