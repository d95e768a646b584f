// A hint is an edit: applied, the finding is gone.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "planner/config/config.h"

namespace nqd::planner {
namespace {

using Texts = std::vector<std::string>;

Texts split(std::string text, const std::string& separator) {
  Texts parts;
  for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator)) {
    parts.push_back(text.substr(0, at));
    text.erase(0, at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

// "8, 16 or 32": each of them.
Texts values_of(std::string text) {
  Texts values;
  for (const std::string_view lead : {"one of ", "at most "}) {
    if (text.starts_with(lead)) text.erase(0, lead.size());
  }
  for (const std::string& part : split(text, ", ")) {
    for (const std::string& value : split(part, " or ")) {
      values.push_back(value.substr(0, value.find(' ')));
    }
  }
  return values;
}

// "parallel.dp to 8 and parallel.world_size to 8": sets of overrides, one a choice of values; none
// when the clause is no edit of keys.
std::vector<Texts> overrides_of(const std::string& clause) {
  std::vector<Texts> sets = {{}};
  for (const std::string& edit : split(clause, " and ")) {
    const std::size_t to = edit.find(" to ");
    if (to == std::string::npos || edit.substr(0, to).find(' ') != std::string::npos) return {};
    std::vector<Texts> longer;
    for (const std::string& value : values_of(edit.substr(to + 4))) {
      for (Texts set : sets) {
        set.push_back(edit.substr(0, to) + "=" + value);
        longer.push_back(std::move(set));
      }
    }
    sets = std::move(longer);
  }
  return sets;
}

std::vector<Texts> edits_of(const Diagnostic& diagnostic) {
  const std::string hint = split(diagnostic.hint, "; ").front();
  if (hint.starts_with("set ")) {
    std::vector<Texts> all;
    for (const std::string& clause : split(hint.substr(4), ", or ")) {
      for (Texts& set : overrides_of(clause)) all.push_back(std::move(set));
    }
    return all;
  }
  const std::string leaf = diagnostic.path.substr(diagnostic.path.rfind('.') + 1);
  for (const std::string& lead :
       {"legal values of " + leaf + " here: ", "legal values of " + leaf + ": ",
        "the nearest legal " + leaf + " is "}) {
    if (hint.starts_with(lead)) {
      return overrides_of(diagnostic.path + " to " + hint.substr(lead.size()));
    }
  }
  return {};
}

TEST_CASE("every edit that a hint names removes the finding") {
  int edits = 0;
  std::vector<std::string> codes;
  for (const auto& entry : std::filesystem::directory_iterator(NQD_SOURCE_DIR "/configs/invalid")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string path = entry.path().string();
    for (const Diagnostic& diagnostic : load_config(path).diagnostics) {
      for (const Texts& overrides : edits_of(diagnostic)) {
        std::string shown;
        for (const std::string& one : overrides) shown += one + " ";
        INFO(diagnostic.code << ": " << diagnostic.hint << "\napplied: " << shown);
        const LoadedConfig edited = load_config(path, {overrides, ""});
        CHECK(std::none_of(edited.diagnostics.begin(), edited.diagnostics.end(),
                           [&](const Diagnostic& left) {
                             return left.code == diagnostic.code || left.where.file == "--set";
                           }));
        ++edits;
        codes.push_back(diagnostic.code);
      }
    }
  }
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  // The rules of the mesh that one value can mend.
  CHECK(codes.size() >= 35);
  CHECK(edits >= 80);
}

// Cases beside the stored configs: what the hint says follows from the keys beside it.
TEST_CASE("edits hold for the keys beside them") {
  const char* const kConfigs[] = {
      // A world size given, and devices that it does not match.
      "model: {preset: gpt2-124m}\ncluster: {nodes: 1, gpus_per_node: 8}\n"
      "parallel: {dp: 4, world_size: 4}\n",
      "model: {preset: gpt2-124m}\ncluster: {nodes: 2, gpus_per_node: 8}\n"
      "parallel: {dp: 1, tp: 1, pp: 3}\n",
      // The tokens of a picture follow from its patches.
      "model: {preset: vit-b-16}\nparallel: {cp: 4}\n",
      // Rotary heads of even width, key and value heads of their own.
      "model: {family: llama, layers: 2, hidden: 768, heads: 7, kv_heads: 2, vocab: 64, sequence: "
      "64}\n",
      "model: {preset: gpt2-124m, layers: 7}\ncluster: {gpus_per_node: 7}\n"
      "parallel: {pp: 7, schedule: interleaved}\n",
      "model: {preset: deepseek-v2-lite, mla: {qk_rope_head_dim: 63}}\n",
  };
  for (const char* const config : kConfigs) {
    INFO(config);
    const LoadedConfig loaded = load_config_text(config, "c.yaml");
    CHECK_FALSE(loaded.ok());
    for (const Diagnostic& diagnostic : loaded.diagnostics) {
      if (diagnostic.severity != Severity::kError || diagnostic.code == "NQD1206") continue;
      const std::vector<Texts> edits = edits_of(diagnostic);
      INFO(format(diagnostic));
      CHECK_FALSE(edits.empty());
      for (const Texts& overrides : edits) {
        INFO(overrides.front());
        const LoadedConfig edited = load_config_text(config, "c.yaml", {overrides, ""});
        CHECK(std::none_of(edited.diagnostics.begin(), edited.diagnostics.end(),
                           [&](const Diagnostic& left) {
                             return left.code == diagnostic.code || left.where.file == "--set";
                           }));
      }
    }
  }
}

}  // namespace
}  // namespace nqd::planner
