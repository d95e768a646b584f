// What a good config loads to: presets, overrides, derived values, origins, canonical text.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "planner/config/config.h"
#include "planner/config/field.h"
#include "planner/config/presets.h"
#include "planner/layout/layout.h"

namespace nqd::planner {
namespace {

LoadedConfig load(const std::string& text, std::vector<std::string> overrides = {}) {
  return load_config_text(text, "test.yaml", {std::move(overrides), {}});
}

LoadedConfig load_good(const std::string& text, std::vector<std::string> overrides = {}) {
  LoadedConfig loaded = load(text, std::move(overrides));
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    CHECK_MESSAGE(diagnostic.severity != Severity::kError, format(diagnostic));
  }
  return loaded;
}

ResolvedValue resolved(const LoadedConfig& loaded, const std::string& path) {
  const auto found = std::find_if(loaded.resolved.begin(), loaded.resolved.end(),
                                  [&](const ResolvedValue& value) { return value.path == path; });
  REQUIRE_MESSAGE(found != loaded.resolved.end(), path);
  return *found;
}

std::string origin(const LoadedConfig& loaded, const std::string& path) {
  return resolved(loaded, path).origin;
}

TEST_CASE("a preset gives a shape and the keys beside it override it") {
  const LoadedConfig loaded = load_good("model:\n  layers: 6\n  preset: gpt2-124m\n");
  CHECK(loaded.config.model.layers == 6);
  CHECK(loaded.config.model.hidden == 768);
  CHECK(loaded.config.model.ffn_hidden == 3072);
  CHECK(origin(loaded, "model.layers") == "test.yaml:2");
  CHECK(origin(loaded, "model.preset") == "test.yaml:3");
  CHECK(origin(loaded, "model.hidden") == "preset gpt2-124m");
  CHECK(origin(loaded, "model.ffn_hidden") == "derived: 4 · hidden");
  CHECK(origin(loaded, "train.steps") == "default");
}

TEST_CASE("--set wins over the file, and the last of two wins") {
  const LoadedConfig loaded = load_good(
      "model: {preset: gpt2-124m}\ntrain: {steps: 7}\n",
      {"train.steps=50", "model.preset=gpt2-350m", "train.steps=60", "data.path=runs/a b: #c"});
  CHECK(loaded.config.train.steps == 60);
  CHECK(loaded.config.model.layers == 24);
  CHECK(loaded.config.data.path == "runs/a b: #c");
  CHECK(origin(loaded, "train.steps") == "--set");
  CHECK(origin(loaded, "model.layers") == "preset gpt2-350m");
}

TEST_CASE("--set reads lists and quantities as the file does") {
  const LoadedConfig loaded =
      load_good("model: {preset: gpt2-124m}\n",
                {"parallel.pp=2", "parallel.pipeline_split=[5, 7]", "cluster.memory_bytes=80 GB"});
  CHECK(loaded.config.parallel.pipeline_split == std::vector<std::int64_t>{5, 7});
  CHECK(loaded.config.cluster.memory_bytes == 80e9);
}

TEST_CASE("quantities carry their units") {
  const LoadedConfig loaded = load_good(
      "model: {preset: gpt2-124m}\n"
      "cluster:\n"
      "  memory_bytes: 64 GiB\n"
      "  peak_flops: 989 TFLOP/s\n"
      "  gemm_flops: 5e14\n"
      "  memory_bandwidth_bytes_per_s: \"3350 GB/s\"\n"
      "  intra_node: {alpha_s: 3 us, bandwidth_bytes_per_s: 450 GB/s}\n"
      "  inter_node: {alpha_s: 5e-6, bandwidth_bytes_per_s: 400 Gb/s}\n"
      "train: {bucket_bytes: 25 MB}\n");
  const ClusterSpec& cluster = loaded.config.cluster;
  CHECK(cluster.memory_bytes == 68719476736.0);
  CHECK(cluster.peak_flops == 989e12);
  CHECK(cluster.gemm_flops == 5e14);
  CHECK(cluster.memory_bandwidth_bytes_per_s == 3.35e12);
  CHECK(cluster.intra_node.alpha_s == doctest::Approx(3e-6).epsilon(1e-15));
  CHECK(cluster.intra_node.bandwidth_bytes_per_s == 450e9);
  CHECK(cluster.inter_node.alpha_s == 5e-6);
  CHECK(cluster.inter_node.bandwidth_bytes_per_s == 50e9);
  CHECK(loaded.config.train.bucket_bytes == 25'000'000);
}

TEST_CASE("dp is derived from the devices") {
  const LoadedConfig loaded = load_good(
      "model: {preset: gpt2-124m}\n"
      "cluster: {preset: dgx-h100, nodes: 4}\n"
      "parallel: {tp: 4, pp: 2}\n");
  CHECK(loaded.config.parallel.dp == 4);
  CHECK(origin(loaded, "parallel.dp") == "derived: devices / (tp · cp · pp)");
  CHECK(loaded.config.parallel.world_size == 32);
  CHECK(loaded.config.train.global_batch_size == 4);
  CHECK(origin(loaded, "cluster.nodes") == "test.yaml:2");
  CHECK(origin(loaded, "cluster.gpus_per_node") == "preset dgx-h100");
}

TEST_CASE("a given world size decides dp before the devices do") {
  const LoadedConfig loaded =
      load_good("model: {preset: gpt2-124m}\nparallel: {tp: 2, world_size: 8}\n");
  CHECK(loaded.config.parallel.dp == 4);
  CHECK(origin(loaded, "parallel.dp") == "derived: world_size / (tp · cp · pp)");
  CHECK(loaded.config.cluster.gpus_per_node == 8);
}

TEST_CASE("without device counts the cluster is what the mesh asks") {
  for (const std::string cluster : {"", "cluster: {memory_bytes: 80 GB}\n", "cluster:\n"}) {
    const LoadedConfig loaded =
        load_good("model: {preset: gpt2-124m}\n" + cluster + "parallel: {dp: 3, tp: 2}\n");
    CHECK(loaded.config.cluster.nodes == 1);
    CHECK(loaded.config.cluster.gpus_per_node == 6);
    CHECK(origin(loaded, "cluster.gpus_per_node") == "derived: the mesh's ranks, on one node");
  }
}

TEST_CASE("defaults that follow from other values stay legal") {
  const LoadedConfig loaded = load_good(
      "model: {preset: gpt2-124m}\n"
      "train:\n"
      "  steps: 40\n"
      "  precision: float32\n"
      "  optimizer: {learning_rate: 1e-5}\n");
  CHECK(loaded.config.train.gradient_precision == Precision::kFloat32);
  CHECK(loaded.config.train.optimizer.warmup_steps == 4);
  CHECK(loaded.config.train.optimizer.min_learning_rate == doctest::Approx(1e-6));
  CHECK(load_good("model: {preset: gpt2-124m}\n").config.train.optimizer.warmup_steps == 10);
}

TEST_CASE("an hsdp shard group is a node's share of dp by default") {
  const std::string head = "model: {preset: gpt2-1.5b}\ncluster: {preset: dgx-h100, nodes: 2}\n";
  CHECK(load_good(head + "parallel: {engine: hsdp}\n").config.parallel.hsdp_shard == 8);
  CHECK(load_good(head + "parallel: {engine: hsdp, pp: 4}\n").config.parallel.hsdp_shard == 2);
  CHECK(load_good(head + "parallel: {engine: hsdp, pp: 2}\n").config.parallel.hsdp_shard == 4);
  // A divisor of dp: 4 of 12, but 3 of 9 where a node holds 4 ranks.
  const std::string three = "model: {preset: gpt2-1.5b}\ncluster: {preset: dgx-h100, nodes: 3}\n";
  CHECK(load_good(three + "parallel: {engine: hsdp}\n").config.parallel.hsdp_shard == 8);
  CHECK(load_good(three + "parallel: {engine: hsdp, pp: 2}\n").config.parallel.hsdp_shard == 4);
  const std::string odd = "model: {preset: gpt2-1.5b}\ncluster: {nodes: 2, gpus_per_node: 9}\n";
  CHECK(load_good(odd + "parallel: {engine: hsdp, pp: 2}\n").config.parallel.hsdp_shard == 3);
  CHECK(load_good(head + "parallel: {engine: zero3}\n").config.parallel.hsdp_shard == 0);
}

TEST_CASE("a preset's 16-bit rates are not used for float32") {
  const std::string head = "model: {preset: gpt2-124m}\ntrain: {precision: float32}\n";
  const LoadedConfig loaded = load_good(head + "cluster: {preset: single-h100}\n");
  CHECK(loaded.config.cluster.peak_flops == 67e12);
  CHECK(loaded.config.cluster.gemm_flops == 0);
  CHECK(origin(loaded, "cluster.peak_flops").starts_with("derived: "));
  const LoadedConfig given =
      load_good(head + "cluster: {preset: single-h100, peak_flops: 1e13, gemm_flops: 5e12}\n");
  CHECK(given.config.cluster.peak_flops == 1e13);
  CHECK(given.config.cluster.gemm_flops == 5e12);
  CHECK(load_good("model: {preset: gpt2-124m}\ncluster: {preset: single-h100}\n")
            .config.cluster.peak_flops == 989e12);
}

TEST_CASE("the parameters of a gpt are counted and those of a state model are given") {
  CHECK(load_good("model: {preset: gpt2-124m}\n").config.model.parameters == 124'439'808);
  CHECK(load_good("model: {preset: byte-gpt-small}\n").config.model.parameters == 1'853'568);
  const LoadedConfig state = load_good("model: {family: state, parameters: 70e9}\n");
  CHECK(state.config.model.parameters == 70e9);
  for (const ResolvedValue& value : state.resolved) CHECK(value.path != "model.layers");
}

TEST_CASE("every key of the table that applies is resolved once, in table order") {
  const LoadedConfig loaded = load_good("model: {preset: gpt2-124m}\n");
  std::vector<std::string> expected;
  for (const Field& field : fields()) {
    if (applies_to(field, "gpt")) expected.emplace_back(field.path);
  }
  std::vector<std::string> got;
  for (const ResolvedValue& value : loaded.resolved) got.push_back(value.path);
  CHECK(got == expected);
}

TEST_CASE("the canonical text does not depend on order, comments, style or origin") {
  const LoadedConfig a = load_good(
      "# one\nmodel: {preset: gpt2-124m, layers: 12}\ntrain:\n  steps: 50 # fifty\n  seed: 3\n");
  const LoadedConfig b =
      load_good("train: {seed: 3}\nmodel:\n  preset: \"gpt2-124m\"\n", {"train.steps=50"});
  CHECK(a.resolved_yaml == b.resolved_yaml);
  CHECK(a.resolved_yaml != load_good("model: {preset: gpt2-124m}\n").resolved_yaml);
  CHECK(sha256_hex(a.resolved_yaml) == sha256_hex(b.resolved_yaml));
}

void check_round_trip(const LoadedConfig& loaded) {
  const LoadedConfig again = load_good(loaded.resolved_yaml);
  CHECK(again.resolved_yaml == loaded.resolved_yaml);
  CHECK(again.config.model.parameters == loaded.config.model.parameters);
  CHECK(again.config.parallel.world_size == loaded.config.parallel.world_size);
}

TEST_CASE("every shipped config loads and its canonical text loads to the same") {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NQD_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    INFO(entry.path().string());
    const LoadedConfig loaded = load_config(entry.path().string());
    for (const Diagnostic& d : loaded.diagnostics) {
      CHECK_MESSAGE(d.severity == Severity::kNote, format(d));
    }
    check_round_trip(loaded);
  }
  CHECK(count >= 40);
}

TEST_CASE("shipped configs cover every family, engine, axis, schedule and runtime") {
  std::set<std::string> seen;
  std::set<std::int64_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator(NQD_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const Config config = load_config(entry.path().string()).config;
    const ParallelSpec& parallel = config.parallel;
    seen.insert(config.model.family);
    for (const std::string_view choice : {name(parallel.engine), name(parallel.schedule),
                                          name(config.train.runtime), name(parallel.order)}) {
      seen.emplace(choice);
    }
    if (parallel.tp > 1) seen.emplace("tp");
    if (parallel.pp > 1) seen.emplace("pp");
    if (parallel.cp > 1) seen.emplace("cp");
    if (parallel.ep > 1) seen.emplace("ep");
    ranks.insert(parallel.ranks());
  }
  for (const std::string_view path : {"model.family", "parallel.engine", "parallel.schedule",
                                      "train.runtime", "parallel.order"}) {
    for (const std::string_view choice : find_field(path)->choices) {
      CHECK_MESSAGE(seen.count(std::string(choice)) == 1, choice);
    }
  }
  for (const char* axis : {"tp", "pp", "cp", "ep"}) CHECK_MESSAGE(seen.count(axis) == 1, axis);
  CHECK(*ranks.begin() == 1);
  CHECK(*ranks.rbegin() == 16384);
}

TEST_CASE("every preset loads, names its source and round-trips") {
  for (const Preset& preset : model_presets()) {
    INFO(preset.name);
    CHECK(preset.text.find("Source: ") != std::string_view::npos);
    check_round_trip(load_good("model: {preset: " + std::string(preset.name) + "}\n"));
  }
  for (const Preset& preset : cluster_presets()) {
    INFO(preset.name);
    CHECK(preset.text.find("Source: ") != std::string_view::npos);
    check_round_trip(load_good(
        "model: {preset: byte-gpt-small}\ncluster: {preset: " + std::string(preset.name) + "}\n"));
  }
}

TEST_CASE("presets hold the published shapes and rates") {
  const auto parameters = [](const std::string& preset) {
    return load_good("model: {preset: " + preset + "}\n").config.model.parameters;
  };
  CHECK(parameters("gpt2-350m") == 354'823'168);
  CHECK(parameters("gpt2-774m") == 774'030'080);
  CHECK(parameters("gpt2-1.5b") == 1'557'611'200);
  CHECK(parameters("gpt3-175b") == doctest::Approx(175e9).epsilon(0.005));
  CHECK(parameters("llama3-405b") == 405'853'388'800);
  CHECK(parameters("crop-foundation") == 1'945'776);
  const ClusterSpec h100 =
      load_good("model: {preset: gpt2-124m}\ncluster: {preset: dgx-h100}\n").config.cluster;
  CHECK(h100.gpus_per_node == 8);
  CHECK(h100.memory_bytes == 80e9);
  CHECK(h100.peak_flops == 989e12);
  CHECK(h100.memory_bandwidth_bytes_per_s == 3.35e12);
  CHECK(h100.intra_node.bandwidth_bytes_per_s == 450e9);
  CHECK(h100.inter_node.bandwidth_bytes_per_s == 50e9);
}

TEST_CASE("a byte-order mark and Windows line ends are no obstacle") {
  const LoadedConfig loaded =
      load_good("\xEF\xBB\xBFmodel:\r\n  preset: gpt2-124m\r\ntrain:\r\n  steps: 5\r\n");
  CHECK(loaded.config.train.steps == 5);
  CHECK(origin(loaded, "train.steps") == "test.yaml:4");
}

TEST_CASE("locate gives a later finding its place, and its related values theirs") {
  const std::string text = "model: {preset: gpt2-124m}\nparallel:\n  tp: 2\n";
  const LoadedConfig loaded = load(text);
  Diagnostic diagnostic;
  diagnostic.path = "parallel.tp";
  diagnostic.related = {{{"model.heads", 0, 0}, "heads = 12"},
                        {{"parallel.vpp", 0, 0}, "vpp = 1"},
                        {{"other.txt", 0, 0}, "kept as it is"}};
  locate(diagnostic, loaded, loaded.text);
  CHECK(diagnostic.where.file == "test.yaml");
  CHECK(diagnostic.where.line == 3);
  CHECK(diagnostic.where.column == 7);
  CHECK(diagnostic.source_line == "  tp: 2");
  REQUIRE(diagnostic.related.size() == 2);
  CHECK(diagnostic.related[0].where.file == "preset gpt2-124m");
  CHECK(diagnostic.related[1].where.file == "other.txt");

  Diagnostic defaulted;
  defaulted.path = "parallel.vpp";
  locate(defaulted, loaded, loaded.text);
  CHECK(defaulted.where.line == 2);  // its section
}

}  // namespace
}  // namespace nqd::planner
