// Whole checkpoints: read and written again, in several files, and such as do not fit.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "engine/io/hugging_face_config.h"
#include "tests/engine/hugging_face/fixtures.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using engine::HuggingFaceExport;
using engine::HuggingFaceWeights;

namespace {

void write_checkpoint(const std::filesystem::path& folder, const planner::ModelSpec& model,
                      const tests::Tensors& weights, DType type = DType::kFloat32) {
  HuggingFaceExport out(folder, model, type);
  for (const planner::TensorSpec& tensor : planner::parameters(model)) {
    out.append(tensor.name, weights.at(tensor.name));
  }
  out.commit();
}

// Writes tensors under their own names, in the shapes that `like` has for them, else flat.
void write_tensors(const std::filesystem::path& file, const std::filesystem::path& like,
                   const tests::Tensors& tensors) {
  const engine::SafetensorsFile shapes(like);
  std::vector<engine::SafetensorsWriter::Entry> entries;
  for (const auto& [name, values] : tensors) {
    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(values.size())};
    for (const auto& [other, tensor] : shapes.tensors()) {
      if (other == name || other == "transformer." + name) shape = tensor.shape;
    }
    entries.push_back({name, shape});
  }
  engine::SafetensorsWriter writer(file, entries, DType::kFloat32);
  for (const auto& [name, values] : tensors) writer.append(values);
  writer.commit();
}

template <typename Work>
void check_refused(const std::string& code, const std::string& why, const Work& work) {
  std::string message = "nothing was thrown";
  try {
    work();
  } catch (const Error& error) {
    message = error.what();
    CHECK(error.code() == code);
    CHECK(error.exit_code() == ExitCode::kUsage);
  }
  INFO(message);
  CHECK(message.find(why) != std::string::npos);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("what is read is written again bit by bit, under the same names") {
  for (const std::string name : tests::kCheckpoints) {
    INFO(name);
    const planner::ModelSpec model = tests::config_of(name).model;
    const HuggingFaceWeights weights(tests::checkpoint(name), model);
    const tests::Tensors ours = tests::all_weights(weights, model);
    const testing::TemporaryFolder folder;
    write_checkpoint(folder.path(), model, ours);
    CHECK(tests::file_tensors(folder / "model.safetensors") ==
          tests::file_tensors(tests::checkpoint(name) / "model.safetensors"));
    CHECK(tests::all_weights(HuggingFaceWeights(folder.path(), model), model) == ours);
    write_checkpoint(folder.path(), model, ours, DType::kBFloat16);
    for (const auto& [tensor, values] :
         tests::all_weights(HuggingFaceWeights(folder.path(), model), model)) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        REQUIRE(values[i] == to_float(to_bfloat16(ours.at(tensor)[i])));
      }
    }
  }
}

TEST_CASE("a tensor does not depend on how it is cut into calls") {
  for (const std::string name : tests::kCheckpoints) {
    const planner::ModelSpec model = tests::config_of(name).model;
    const HuggingFaceWeights weights(tests::checkpoint(name), model);
    for (const planner::TensorSpec& tensor : planner::parameters(model)) {
      INFO(name, ": ", tensor.name);
      std::vector<float> whole(static_cast<std::size_t>(tensor.elements()));
      weights.fill(tensor, 0, whole);
      std::vector<float> cut(whole.size());
      for (std::size_t at = 0; at < cut.size(); at += 37) {
        weights.fill(tensor, static_cast<std::int64_t>(at),
                     std::span(cut).subspan(at, std::min<std::size_t>(37, cut.size() - at)));
      }
      CHECK(cut == whole);
    }
  }
}

TEST_CASE("projections that nqd stacks are rows in their order; GPT-2's are transposed") {
  const planner::ModelSpec llama = tests::config_of("llama").model;
  const auto file = tests::file_tensors(tests::checkpoint("llama") / "model.safetensors");
  const auto ours =
      tests::all_weights(HuggingFaceWeights(tests::checkpoint("llama"), llama), llama);
  std::vector<float> key_value = file.at("model.layers.1.self_attn.k_proj.weight");
  const std::vector<float>& value = file.at("model.layers.1.self_attn.v_proj.weight");
  key_value.insert(key_value.end(), value.begin(), value.end());
  CHECK(ours.at("layers.1.attention.kv.weight") == key_value);

  const planner::ModelSpec gpt2 = tests::config_of("gpt2").model;
  const auto conv = tests::file_tensors(tests::checkpoint("gpt2") / "model.safetensors")
                        .at("transformer.h.0.mlp.c_fc.weight");
  const auto fc = tests::all_weights(HuggingFaceWeights(tests::checkpoint("gpt2"), gpt2), gpt2)
                      .at("layers.0.mlp.fc.weight");
  CHECK(fc[5 * 32 + 3] == conv[3 * 40 + 5]);
}

TEST_CASE("published layouts: several files, no prefix, masks, a copy of the token table") {
  const planner::ModelSpec model = tests::config_of("gpt2").model;
  const std::filesystem::path original = tests::checkpoint("gpt2") / "model.safetensors";
  const tests::Tensors ours = tests::all_weights(HuggingFaceWeights(original, model), model);
  const testing::TemporaryFolder folder;
  tests::Tensors halves[2];
  std::string index;
  for (const auto& [name, values] : tests::file_tensors(original)) {
    const bool second = name.find("h.1.") != std::string::npos;
    halves[second].emplace(name, values);
    index += (index.empty() ? "\"" : ",\"") + name + "\":\"" + (second ? "b" : "a") + "\"";
  }
  write_tensors(folder / "a", original, halves[0]);
  write_tensors(folder / "b", original, halves[1]);
  write_file(folder / "model.safetensors.index.json", "{\"weight_map\":{" + index + "}}");
  CHECK(tests::all_weights(HuggingFaceWeights(folder.path(), model), model) == ours);
  write_file(folder / "model.safetensors.index.json", R"({"weight_map":{"x":"../a"}})");
  check_refused("NQD2071", "../a", [&] { HuggingFaceWeights(folder.path(), model); });

  tests::Tensors extended;
  for (const auto& [name, values] : tests::file_tensors(original)) {
    extended.emplace(name.substr(std::string("transformer.").size()), values);
  }
  extended["h.0.attn.bias"] = {1.0F};
  write_tensors(folder / "more", original, extended);
  CHECK(tests::all_weights(HuggingFaceWeights(folder / "more", model), model) == ours);
  extended["lm_head.weight"] = std::vector<float>(61 * 32);
  write_tensors(folder / "more", original, extended);
  check_refused("NQD2071", "lm_head.weight is not the token table",
                [&] { HuggingFaceWeights(folder / "more", model); });
}

TEST_CASE("weights that do not fit the model are refused by tensor") {
  planner::ModelSpec model = tests::config_of("llama").model;
  const std::filesystem::path original = tests::checkpoint("llama") / "model.safetensors";
  const testing::TemporaryFolder folder;
  const tests::Tensors tensors = tests::file_tensors(original);
  tests::Tensors changed = tensors;
  changed.erase("model.layers.1.mlp.up_proj.weight");
  write_tensors(folder / "x", original, changed);
  check_refused("NQD2071", "no tensor \"model.layers.1.mlp.up_proj.weight\"",
                [&] { HuggingFaceWeights(folder / "x", model); });
  changed = tensors;
  changed["model.layers.0.self_attn.o_proj.bias"] = std::vector<float>(32);
  write_tensors(folder / "x", original, changed);
  check_refused("NQD2071", "o_proj.bias\" has no place",
                [&] { HuggingFaceWeights(folder / "x", model); });
  engine::SafetensorsWriter(folder / "y", {}, DType::kFloat32).commit();
  check_refused("NQD2071", "there is no tensor", [&] { HuggingFaceWeights(folder / "y", model); });
  write_tensors(folder / "x", original, tensors);
  model.ffn_hidden = 48;
  check_refused("NQD2071", "gate_proj.weight\" is [40, 32], the model has [48, 32]",
                [&] { HuggingFaceWeights(folder / "x", model); });
}

TEST_CASE("an index that names no file is refused") {
  const testing::TemporaryFolder folder;
  write_file(folder / "model.safetensors.index.json", "{\"weight_map\": {}}");
  check_refused("NQD2071", "names no file",
                [&] { HuggingFaceWeights(folder.path(), tests::config_of("gpt2").model); });
}

TEST_CASE("a config.json that says otherwise is refused by key") {
  const testing::TemporaryFolder folder;
  const auto check = [&](const std::string& name, const std::string& from, const std::string& to,
                         const std::string& why) {
    const std::string text = read_file(tests::checkpoint(name) / "config.json");
    write_file(folder / "config.json", replaced(text, from, to));
    check_refused("NQD2073", why, [&] {
      engine::check_hugging_face_config(folder / "config.json", tests::config_of(name).model);
    });
  };
  check("llama", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", "model.kv_heads 4");
  check("llama", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-06",
        "model.norm_epsilon 1e-06, the config has 1e-05");
  check("llama", "\"rope_theta\": 10000.0", "\"rope_theta\": 500000.0",
        "model.rope_base 500000, the config has 10000");
  check("llama3", "\"factor\": 8.0", "\"factor\": 32.0",
        "model.rope_scaling.factor 32, the config has 8");
  check("llama3", "\"low_freq_factor\": 1.0", "\"low_freq_factor\": 2.0",
        "model.rope_scaling.low_freq_factor 2, the config has 1");
  check("llama3", "\"rope_type\": \"llama3\"", "\"rope_type\": \"linear\"",
        "rope_type is \"linear\"");
  check("gpt2", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-12",
        "model.norm_epsilon 1e-12, the config has 1e-05");
  check("llama", "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "rope_type is \"yarn\"");
  check("llama", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "hidden_act is \"gelu\"");
  check("llama", "\"model_type\": \"llama\"", "\"model_type\": \"gemma\"", "not llama");
  check("llama", "\"max_position_embeddings\": 12", "\"max_position_embeddings\": 8", "8 tokens");
  check("qwen2", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", "tied_head");
  check("gpt2", "\"n_head\": 4", "\"n_head\": 2", "model.heads 2");
  check("gpt2", "gelu_new", "relu", "activation_function is \"relu\"");
  check("gpt2", "\"n_positions\": 12", "\"n_positions\": 24", "sequences of 24 tokens");
  check("gpt2", "{", "[", "parse error");
  check("gpt2", "\"n_layer\": 2", "\"n_layer\": \"" + std::string(100'000, '2'), "parse error");
  for (const char* window : {"1e300", "\"12\"", "-1", "11"}) {
    check("llama", "{", "{\"sliding_window\": " + std::string(window) + ",", "sliding_window is ");
  }
  write_file(folder / "config.json", replaced(read_file(tests::checkpoint("llama") / "config.json"),
                                              "{", "{\"sliding_window\": 18446744073709551615,"));
  engine::check_hugging_face_config(folder / "config.json", tests::config_of("llama").model);
}

TEST_CASE("a model that is neither GPT-2 nor Llama has no checkpoint") {
  planner::ModelSpec model = tests::config_of("gpt2").model;
  model.norm = planner::Norm::kRmsNorm;
  const testing::TemporaryFolder folder;
  check_refused("NQD2072", "neither a GPT-2 nor a Llama",
                [&] { HuggingFaceExport(folder / "x", model, DType::kFloat32); });
  CHECK(!std::filesystem::exists(folder / "x"));
}
