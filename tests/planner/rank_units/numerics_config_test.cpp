#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "planner/config/config.h"

namespace nqd::planner {
namespace {

using collectives::Numerics;

LoadedConfig load(const std::string& rest, std::vector<std::string> overrides = {}) {
  LoadOptions options;
  options.overrides = std::move(overrides);
  return load_config_text("model: {preset: gpt2-124m, vocab: 50304}\n" + rest, "test.yaml",
                          options);
}

TEST_CASE("numerics are canonical in eight slices unless a word or a mapping says otherwise") {
  CHECK(load("").config.numerics.mode == Numerics::kCanonical);
  CHECK(load("").config.numerics.tp_slices == 8);
  CHECK(load("numerics: fast\n").config.numerics.mode == Numerics::kFast);
  const LoadedConfig mapping = load("numerics: {mode: canonical, tp_slices: 4}\n");
  CHECK(mapping.config.numerics.mode == Numerics::kCanonical);
  CHECK(mapping.config.numerics.tp_slices == 4);
  CHECK(mapping.diagnostics.empty());
  CHECK(load("", {"numerics=fast"}).config.numerics.mode == Numerics::kFast);
  CHECK(load("numerics: fast\n", {"numerics.mode=canonical"}).config.numerics.mode ==
        Numerics::kCanonical);
}

TEST_CASE("the resolved config names the mode by its key") {
  const LoadedConfig loaded = load("numerics: fast\n");
  const std::string& yaml = loaded.resolved_yaml;
  CHECK(yaml.find("numerics:\n  mode: fast\n  tp_slices: 8\n") != std::string::npos);
  CHECK(load_config_text(yaml, "again.yaml", {}).config.numerics.mode == Numerics::kFast);
  for (const ResolvedValue& value : loaded.resolved) {
    if (value.path == "numerics.mode") CHECK(value.origin == "test.yaml:2");
  }
}

TEST_CASE("a word that is no mode is explained as the mode's value") {
  const LoadedConfig loaded = load("numerics: fsat\n");
  REQUIRE(loaded.diagnostics.size() == 1);
  CHECK(loaded.diagnostics[0].code == "NQD1010");
  CHECK(loaded.diagnostics[0].path == "numerics.mode");
  CHECK(loaded.diagnostics[0].hint == "did you mean fast?");
  CHECK(load("numerics: [fast]\n").diagnostics.at(0).code == "NQD1004");
}

std::string first_hint(const LoadedConfig& loaded) {
  return loaded.diagnostics.empty() ? "" : loaded.diagnostics.front().hint;
}

TEST_CASE("slices that tp ranks cannot share are a warning, which its hint mends") {
  CHECK(first_hint(load("parallel: {tp: 2}\n")) == "");
  const LoadedConfig three = load("parallel: {tp: 3}\n");
  REQUIRE(three.diagnostics.size() == 1);
  CHECK(three.diagnostics[0].code == "NQD1263");
  CHECK(three.diagnostics[0].severity == Severity::kWarning);
  CHECK(three.diagnostics[0].hint ==
        "set numerics.tp_slices to one of 3, 6, 12, 24, 48, or set numerics.mode to fast");
  for (const char* fix : {"numerics.tp_slices=3", "numerics.tp_slices=48", "numerics=fast"}) {
    CAPTURE(fix);
    CHECK(first_hint(load("parallel: {tp: 3}\n", {fix})) == "");
  }
  // Six slices are three a rank: no subtree of ((0 1)(2 3))(4 5).
  CHECK(load("parallel: {tp: 2}\n", {"numerics.tp_slices=6"}).diagnostics.size() == 1);
  // Nor does a plan for devices heed what nqd's CPU engine would do.
  CHECK(first_hint(load("parallel: {tp: 3}\ncluster: {gpu: h100-sxm, gpus_per_node: 3}\n")) == "");
}

TEST_CASE("slices divide the widths that are cut, and with sequence parallelism the rows") {
  const LoadedConfig widths = load("parallel: {tp: 2}\n", {"model.ffn_hidden=3076"});
  CHECK(first_hint(widths) ==
        "set numerics.tp_slices to one of 2, 4, or set numerics.mode to fast");
  const std::string odd_rows = "parallel: {tp: 2, sequence_parallel: true}\n";
  const LoadedConfig rows = load(odd_rows, {"model.sequence=1002"});
  CHECK(first_hint(rows) == "set numerics.tp_slices to one of 2, or set numerics.mode to fast");
  CHECK(first_hint(load(odd_rows, {"model.sequence=1000"})) == "");
}

}  // namespace
}  // namespace nqd::planner
