// Bad input is a finding, never an exception or a crash: cut, mutated and hostile texts. Every
// choice is made by a fixed generator, so that a failure repeats.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/codes.h"
#include "base/file.h"
#include "planner/config/calibration_reader.h"
#include "planner/config/config.h"
#include "planner/config/source.h"

namespace nqd::planner {
namespace {

// Loads, and checks that the answer is consistent with itself.
void load_anything(const std::string& text) {
  INFO(text);
  LoadedConfig loaded;
  REQUIRE_NOTHROW(loaded = load_config_text(text, "fuzz.yaml"));
  const Source source("fuzz.yaml", text);
  const int lines = source.line_count();
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    CAPTURE(diagnostic.code);
    CHECK(find_code(diagnostic.code) != nullptr);
    CHECK(diagnostic.where.line <= lines);
    // The line that is shown is the line that is named.
    if (diagnostic.source_line.empty()) continue;
    CHECK(diagnostic.source_line == source.line(diagnostic.where.line));
    CHECK(diagnostic.where.column <= static_cast<int>(diagnostic.source_line.size()) + 1);
  }
  if (!loaded.ok()) return;
  const LoadedConfig again = load_config_text(loaded.resolved_yaml, "canonical.yaml");
  CHECK(again.ok());
  CHECK(again.resolved_yaml == loaded.resolved_yaml);
}

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const std::string file : {"quickstart", "gpt3-175b-4096", "gpt3-13b-pp"}) {
    texts.push_back(read_file(NQD_SOURCE_DIR "/configs/" + file + ".yaml"));
  }
  for (const std::string file : {"quickstart-wrong", "anchor", "two-documents", "not-utf8"}) {
    texts.push_back(read_file(NQD_SOURCE_DIR "/configs/invalid/" + file + ".yaml"));
  }
  return texts;
}

TEST_CASE("every prefix of a config") {
  const std::string text = seeds()[1];
  for (std::size_t length = 0; length <= text.size(); ++length) {
    load_anything(text.substr(0, length));
  }
}

std::string mutated(std::string text, std::mt19937& random) {
  const std::vector<std::string> tokens = {
      "\t",     "\n",          "  ",    ":",       "- ", "{",          "}",    "[",
      "]",      ",",           "&a ",   "*a",      "<<", "!!",         "!",    "%",
      "---",    "...",         "\"",    "'",       "|",  ">",          "#",    "? ",
      "@",      "`",           "\\",    "\xC3",    "\0", "\x7F",       "null", "~",
      "-1",     "1e999",       ".nan",  "0",       "on", "9e9",        "\r",   "tp",
      "model:", "%YAML 9.9\n", "\"\\x", "\"\\u12", "!<", "99999999999"};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const std::size_t edits = 1 + below(4);
  for (std::size_t i = 0; i < edits && !text.empty(); ++i) {
    const std::size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text.erase(at, 1 + below(12));
        break;
      case 1:
        text.insert(at, tokens[below(tokens.size())]);
        break;
      case 2:
        text[at] = static_cast<char>(below(256));
        break;
      default:
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
    }
  }
  return text;
}

TEST_CASE("mutated configs") {
  std::mt19937 random(20260101);
  const std::vector<std::string> texts = seeds();
  for (int i = 0; i < 4000; ++i) load_anything(mutated(texts[random() % texts.size()], random));
}

TEST_CASE("mutated --set flags") {
  std::mt19937 random(7);
  for (int i = 0; i < 1500; ++i) {
    const std::string flag = mutated("parallel.pipeline_split=[6, 6]", random);
    INFO(flag);
    CHECK_NOTHROW(load_config_text("model: {preset: gpt2-124m}\n", "t", {{flag}, ""}));
  }
}

TEST_CASE("mutated calibrations") {
  std::mt19937 random(11);
  const std::string good = read_file(NQD_SOURCE_DIR "/configs/invalid/negative-alpha.calibration");
  for (int i = 0; i < 1500; ++i) {
    std::vector<Diagnostic> found;
    const bool read = parse_calibration(Source("c", mutated(good, random)), found).has_value();
    CHECK(read == found.empty());
  }
}

TEST_CASE("texts made to exhaust a parser") {
  const std::string deep(100'000, '[');
  load_anything(deep);
  load_anything("model: " + deep);
  load_anything(std::string(100'000, '{'));
  std::string nested;
  for (int i = 0; i < 2000; ++i) nested += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  load_anything(nested.substr(0, 900'000));
  std::string dashes;
  for (int i = 0; i < 20'000; ++i) dashes += "- ";
  load_anything(dashes);
  load_anything(std::string(2 << 20, 'a'));
  load_anything("model: {" + std::string(50'000, '"') + "}");
  std::string keys;
  for (int i = 0; i < 20'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  load_anything(keys);
}

}  // namespace
}  // namespace nqd::planner
