#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "engine/data/dataset.h"
#include "engine/data/split.h"
#include "engine/data/stats.h"
#include "engine/data/verify.h"
#include "engine/io/dataset_json.h"
#include "tests/temporary_folder.h"

namespace nqd::engine {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

template <typename Action>
std::string error_code_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return "no error";
}

// Twelve different texts of 100 to 1200 bytes.
fs::path write_corpus(const TemporaryFolder& folder) {
  const fs::path corpus = folder / "corpus";
  fs::create_directory(corpus);
  for (int i = 0; i < 12; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    std::string text;
    for (int line = 0; line <= i; ++line)
      text += std::string(98, name[0]) + std::to_string(line % 10) + "\n";
    write_file(corpus / name, text);
  }
  return corpus;
}

PrepareOptions options_for(std::vector<fs::path> inputs, const fs::path& output) {
  PrepareOptions options;
  options.inputs = std::move(inputs);
  options.output = output;
  return options;
}

std::string payload_text(const fs::path& path) { return read_file(path).substr(64); }

std::set<std::string> heldout_paths(const PrepareResult& result) {
  std::set<std::string> paths;
  for (const PreparedDocument& document : result.documents) {
    if (document.split == "heldout") paths.insert(document.path);
  }
  return paths;
}

TEST_CASE("whole files go to exactly one split, with their bytes at their offset") {
  const TemporaryFolder folder;
  const fs::path corpus = write_corpus(folder);
  const fs::path output = folder / "made/by/prepare";
  const PrepareResult result = prepare_dataset(options_for({corpus}, output));
  CHECK(result.documents.size() == 12);
  CHECK(result.notes.empty());
  std::set<std::string> paths;
  std::uint64_t heldout_bytes = 0;
  std::uint64_t all_bytes = 0;
  for (const PreparedDocument& document : result.documents) {
    paths.insert(document.path);
    const std::string text = read_file(document.path);
    CHECK(document.tokens == text.size());
    CHECK(document.sha256 == sha256_hex(text));
    CHECK(payload_text(output / (document.split + ".tokens"))
              .substr(document.offset, document.tokens) == text);
    all_bytes += text.size();
    if (document.split == "heldout") heldout_bytes += text.size();
  }
  CHECK(paths.size() == 12);
  CHECK(result.heldout_tokens == heldout_bytes);
  CHECK(result.train_tokens == all_bytes - heldout_bytes);
  CHECK(10 * heldout_bytes >= all_bytes);
  CHECK(result.digest == sha256_hex(payload_text(output / "train.tokens") +
                                    payload_text(output / "heldout.tokens")));
}

TEST_CASE("the same input gives the same bytes, another seed another choice") {
  const TemporaryFolder folder;
  const fs::path corpus = write_corpus(folder);
  PrepareOptions options = options_for({corpus}, folder / "one");
  prepare_dataset(options);
  options.output = folder / "two";
  const PrepareResult two = prepare_dataset(options);
  for (const std::string name : {"train.tokens", "heldout.tokens", "dataset.json"}) {
    CHECK(read_file(folder / "one" / name) == read_file(folder / "two" / name));
  }
  std::set<std::set<std::string>> choices;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    options.seed = seed;
    choices.insert(heldout_paths(prepare_dataset(options)));
  }
  CHECK(choices.size() > 5);
}

TEST_CASE("the choice depends on content, not on names or on the order of arguments") {
  const TemporaryFolder folder;
  const fs::path corpus = write_corpus(folder);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(corpus)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const auto forward = heldout_paths(prepare_dataset(options_for(files, folder / "one")));
  std::reverse(files.begin(), files.end());
  CHECK(heldout_paths(prepare_dataset(options_for(files, folder / "two"))) == forward);
}

TEST_CASE("links are followed; copies are dropped and named, a link rather than its file") {
  const TemporaryFolder folder;
  const fs::path corpus = write_corpus(folder);
  fs::create_symlink("l", corpus / "0-link");  // sorts before the file that it names
  fs::copy_file(corpus / "b", corpus / "z-copy");
  fs::create_symlink("nowhere", corpus / "dangling");
  write_file(corpus / "empty", "");
  const PrepareResult result = prepare_dataset(options_for({corpus}, folder / "out"));
  CHECK(result.documents.size() == 12);
  const std::string at = corpus.string() + "/";
  CHECK(result.duplicates == std::vector<std::string>{at + "0-link (same content as " + at + "l)",
                                                      at + "z-copy (same content as " + at + "b)"});
  CHECK(result.notes == std::vector<std::string>{at + "dangling is a dangling link: left out",
                                                 at + "empty is empty: left out"});
}

TEST_CASE("one file alone is split at a line end and said so") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  write_file(folder / "text", text);
  PrepareOptions options = options_for({folder / "text", folder / "text"}, folder / "out");
  options.heldout_fraction = 0.25;
  const PrepareResult result = prepare_dataset(options);
  const std::string train = payload_text(folder / "out" / "train.tokens");
  const std::string heldout = payload_text(folder / "out" / "heldout.tokens");
  CHECK(train + heldout == text);
  CHECK(train.back() == '\n');
  CHECK(4 * heldout.size() >= text.size());
  CHECK(4 * (heldout.size() - std::string("line 74\n").size()) < text.size());
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0].find("split at a line end") != std::string::npos);
  CHECK(result.duplicates.size() == 1);
  CHECK(result.documents[1].sha256 == sha256_hex(heldout));
}

TEST_CASE("line_end_split leaves the share behind the cut, or nothing") {
  CHECK(line_end_split("a\nb\n", 0.5) == 2);
  CHECK(line_end_split("a\nb\n", 0.6) == std::nullopt);
  CHECK(line_end_split("\nabcdefgh", 0.1) == 1);
  CHECK(line_end_split("abc", 0.1) == std::nullopt);
  CHECK(line_end_split("abc\n", 0.1) == std::nullopt);
  CHECK(line_end_split("", 0.1) == std::nullopt);
}

TEST_CASE("the share is reached, never with all files, for random sizes") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<SplitCandidate> files(2 + random() % 9);
    double total = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto size = std::uint64_t{1} << random() % 20;
      files[i] = {sha256_hex(std::to_string(round) + "/" + std::to_string(i)), 1 + random() % size};
      total += static_cast<double>(files[i].bytes);
    }
    const double fraction = 0.01 + 0.48 * static_cast<double>(random() % 1000) / 1000;
    const auto chosen = choose_heldout(files, fraction, random());
    REQUIRE(chosen);
    double held = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if ((*chosen)[i]) held += static_cast<double>(files[i].bytes);
    }
    REQUIRE(held >= fraction * total);
    REQUIRE(held < total);
  }
}

TEST_CASE("many files of like size hold out little more than was asked") {
  std::vector<SplitCandidate> files;
  for (int i = 0; i < 100; ++i) files.push_back({sha256_hex(std::to_string(i)), 90 + 5u * (i % 5)});
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto chosen = choose_heldout(files, 0.1, seed);
    REQUIRE(chosen);
    CHECK(std::count(chosen->begin(), chosen->end(), true) <= 12);
  }
  // 60 of 100 bytes in one file: the others reach the share, so it is never drawn.
  const std::vector<SplitCandidate> uneven = {{"a", 60}, {"b", 14}, {"c", 13}, {"d", 13}};
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    CHECK_FALSE((*choose_heldout(uneven, 0.1, seed))[0]);
}

TEST_CASE("a share that no choice of whole files reaches is nothing") {
  const std::vector<SplitCandidate> equal = {{"a", 100}, {"b", 100}};
  CHECK(choose_heldout(equal, 0.6, 1) == std::nullopt);
  CHECK(choose_heldout(std::vector<SplitCandidate>{{"a", 100}}, 0.1, 1) == std::nullopt);
  const std::vector<SplitCandidate> three = {{"a", 10}, {"b", 45}, {"c", 45}};
  CHECK(*choose_heldout(three, 0.85, 1) == std::vector<bool>{false, true, true});
}

TEST_CASE("one file that is nearly everything is held out with a note") {
  const TemporaryFolder folder;
  write_file(folder / "large", std::string(10'000, 'x') + "\n");
  write_file(folder / "small", "y\n");
  const PrepareResult result =
      prepare_dataset(options_for({folder / "large", folder / "small"}, folder / "out"));
  CHECK(heldout_paths(result) == std::set<std::string>{(folder / "large").string()});
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0].find("100.0%") != std::string::npos);
}

TEST_CASE("revisions of one text go to one split and are named") {
  const TemporaryFolder folder;
  const fs::path corpus = write_corpus(folder);
  std::string revised;
  for (int i = 0; i < 60; ++i) revised += "word " + std::to_string(i * i) + " of the text\n";
  write_file(corpus / "x-1", revised);
  write_file(corpus / "x-2", revised + "and one more line that only the second revision has\n");
  PrepareOptions options = options_for({corpus}, folder / "out");
  options.heldout_fraction = 0.3;
  bool seen_in[2] = {false, false};
  for (options.seed = 0; options.seed < 30; ++options.seed) {
    const PrepareResult result = prepare_dataset(options);
    const auto heldout = heldout_paths(result);
    const bool first = heldout.contains((corpus / "x-1").string());
    REQUIRE(first == heldout.contains((corpus / "x-2").string()));
    seen_in[first ? 1 : 0] = true;
    REQUIRE(result.notes.size() == 1);
    REQUIRE(result.notes[0] == "kept in one split, because they share long passages: " +
                                   (corpus / "x-1").string() + ", " + (corpus / "x-2").string());
  }
  CHECK(seen_in[0]);
  CHECK(seen_in[1]);
}

TEST_CASE("revisions alone are split with a warning about the held-out loss") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word " + std::to_string(i * i) + " of the text\n";
  write_file(folder / "one", text);
  write_file(folder / "two", text + "one more line\n");
  const PrepareResult result =
      prepare_dataset(options_for({folder / "one", folder / "two"}, folder / "out"));
  CHECK(heldout_paths(result).size() == 1);
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0].find("look better than it is") != std::string::npos);
}

TEST_CASE("the licence texts of the machine are the default") {
  if (!fs::is_directory("/usr/share/common-licenses")) return;  // not a Debian machine
  const TemporaryFolder folder;
  const PrepareResult result = prepare_dataset(options_for({}, folder / "out"));
  CHECK(result.train_tokens + result.heldout_tokens > 100'000);
  CHECK_FALSE(result.duplicates.empty());  // GPL is a link to GPL-3
  CHECK(verify_dataset(folder / "out").digest == result.digest);
}

TEST_CASE("the index reads back what was written") {
  const TemporaryFolder folder;
  const PrepareResult result = prepare_dataset(options_for({write_corpus(folder)}, folder / "out"));
  const DatasetIndex index = read_dataset_index(folder / "out");
  CHECK(index.digest == result.digest);
  CHECK(index.vocab == 256);
  CHECK(index.train.tokens == result.train_tokens);
  CHECK(index.heldout.tokens == result.heldout_tokens);
  REQUIRE(index.documents.size() == result.documents.size());
  for (std::size_t i = 0; i < index.documents.size(); ++i) {
    CHECK(index.documents[i].path == result.documents[i].path);
    CHECK(index.documents[i].sha256 == result.documents[i].sha256);
    CHECK(index.documents[i].offset == result.documents[i].offset);
    CHECK(index.documents[i].tokens == result.documents[i].tokens);
    CHECK(index.documents[i].split == result.documents[i].split);
  }
}

TEST_CASE("a missing, broken, foreign or newer index is refused") {
  const TemporaryFolder folder;
  prepare_dataset(options_for({write_corpus(folder)}, folder / "out"));
  const fs::path path = folder / "out" / "dataset.json";
  const std::string good = read_file(path);
  const auto code_with = [&](const std::string& text) {
    write_file(path, text);
    return error_code_of([&] { read_dataset_index(folder / "out"); });
  };
  CHECK(code_with(good) == "no error");
  for (std::size_t size = 0; size + 2 < good.size(); size += 7) {
    REQUIRE(code_with(good.substr(0, size)) == "NQD2006");
  }
  for (const std::string text : {"[]", "3", "{}", R"({"format": "other", "version": 1})",
                                 R"({"format": "nqd-dataset", "version": 2})",
                                 R"({"format": "nqd-dataset", "version": 1, "digest": 5})"}) {
    INFO(text);
    CHECK(code_with(text) == "NQD2006");
  }
  fs::remove(path);
  CHECK(error_code_of([&] { read_dataset_index(folder / "out"); }) == "NQD2006");
}

TEST_CASE("verify finds changed text, exchanged files and an edited index") {
  const TemporaryFolder folder;
  const fs::path output = folder / "out";
  const PrepareResult result = prepare_dataset(options_for({write_corpus(folder)}, output));
  const VerifiedDataset verified = verify_dataset(output);
  CHECK(verified.documents == 12);
  CHECK(verified.train_tokens == result.train_tokens);
  CHECK(verified.heldout_tokens == result.heldout_tokens);
  const auto code = [&] { return error_code_of([&] { verify_dataset(output); }); };
  const auto restored = [&](const std::string& name, const std::string& text) {
    const std::string good = read_file(output / name);
    write_file(output / name, text);
    const std::string found = code();
    write_file(output / name, good);
    REQUIRE(code() == "no error");
    return found;
  };
  std::string train = read_file(output / "train.tokens");
  train.back() = '!';
  CHECK(restored("train.tokens", train) == "NQD2005");
  CHECK(restored("train.tokens", read_file(output / "heldout.tokens")) == "NQD2005");
  DatasetIndex index = read_dataset_index(output);
  index.documents[0].offset += 1;
  CHECK(restored("dataset.json", index_json(index)) == "NQD2005");
  index = read_dataset_index(output);
  index.documents.pop_back();
  CHECK(restored("dataset.json", index_json(index)) == "NQD2005");
  index = read_dataset_index(output);
  index.documents[0].sha256[0] ^= 1;
  CHECK(restored("dataset.json", index_json(index)) == "NQD2005");
  index = read_dataset_index(output);
  index.digest[5] ^= 1;
  CHECK(restored("dataset.json", index_json(index)) == "NQD2005");
}

TEST_CASE("stats count tokens and give the entropy of their frequencies") {
  const TemporaryFolder folder;
  // Cut after the line end: "aab\n" to train on, "bbbb" held out.
  write_file(folder / "text", "aab\nbbbb");
  PrepareOptions options = options_for({folder / "text"}, folder / "out");
  options.heldout_fraction = 0.5;
  prepare_dataset(options);
  const std::vector<SplitStats> stats = dataset_stats(folder / "out");
  REQUIRE(stats.size() == 2);
  CHECK(stats[0].split == "train");
  CHECK(stats[0].documents == 1);
  CHECK(stats[0].tokens == 4);
  CHECK(stats[0].distinct_tokens == 3);
  CHECK(stats[0].unigram_entropy_nats == doctest::Approx(1.5 * std::log(2.0)));
  CHECK(stats[1].split == "heldout");
  CHECK(stats[1].distinct_tokens == 1);
  CHECK(stats[1].unigram_entropy_nats == 0);
}

}  // namespace
}  // namespace nqd::engine
