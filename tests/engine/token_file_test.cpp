#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/ledger.h"
#include "engine/batches.h"
#include "engine/data/dataset.h"
#include "engine/data/token_format.h"
#include "engine/data/training_data.h"
#include "tests/temporary_folder.h"

namespace nqd::engine {
namespace {

using testing::TemporaryFolder;

void write_tokens(const std::filesystem::path& path, std::int64_t vocab, std::string_view payload) {
  TokenFileWriter writer(path, vocab);
  writer.append(payload);
  writer.finish();
  writer.commit();
}

std::string code_of(const std::filesystem::path& path) {
  try {
    const TokenFile file(path);
    file.verify();
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kUsage);
    CHECK(std::string(error.what()).find(path.string()) != std::string::npos);
    return error.code();
  }
  return "no error";
}

std::string message_of(const std::filesystem::path& path) {
  try {
    const TokenFile file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The bytes of a good file with one edit, as a file of its own.
std::filesystem::path damaged(const TemporaryFolder& folder, const std::string& good,
                              std::size_t offset, std::string_view bytes) {
  std::string text = good;
  text.replace(offset, bytes.size(), bytes);
  write_file(folder / "damaged.tokens", text);
  return folder / "damaged.tokens";
}

TEST_CASE("samples overlap by one token, and the last token is only a target") {
  const TemporaryFolder folder;
  write_tokens(folder / "a.tokens", 256, "abcdefg");
  const TokenFile file(folder / "a.tokens");
  CHECK(file.tokens() == 7);
  CHECK(file.vocab() == 256);
  CHECK(file.bytes_per_token() == 1);
  CHECK(file.samples(3) == 2);
  CHECK(file.samples(6) == 1);
  CHECK(file.samples(7) == 0);
  CHECK(file.samples(0) == 0);
  CHECK(file.samples(-1) == 0);
  std::vector<std::int32_t> tokens(3);
  std::vector<std::int32_t> targets(3);
  file.sample(0, 3, tokens, targets);
  CHECK(tokens == std::vector<std::int32_t>{'a', 'b', 'c'});
  CHECK(targets == std::vector<std::int32_t>{'b', 'c', 'd'});
  file.sample(1, 3, tokens, targets);
  CHECK(tokens == std::vector<std::int32_t>{'d', 'e', 'f'});
  CHECK(targets == std::vector<std::int32_t>{'e', 'f', 'g'});
  CHECK_THROWS_AS(file.sample(2, 3, tokens, targets), std::out_of_range);
  CHECK_THROWS_AS(file.sample(0, 2, tokens, targets), std::out_of_range);
}

TEST_CASE("a byte above 127 is a token from 128 to 255") {
  const TemporaryFolder folder;
  write_tokens(folder / "a.tokens", 256, "\x80\xff\x01");
  std::vector<std::int32_t> tokens(2);
  std::vector<std::int32_t> targets(2);
  TokenFile(folder / "a.tokens").sample(0, 2, tokens, targets);
  CHECK(tokens == std::vector<std::int32_t>{128, 255});
  CHECK(targets == std::vector<std::int32_t>{255, 1});
}

TEST_CASE("a vocabulary above 256 takes two little-endian bytes a token") {
  const TemporaryFolder folder;
  const std::string payload("\x01\x00\x00\x01\xff\xff", 6);
  write_tokens(folder / "a.tokens", 65'536, payload);
  const TokenFile file(folder / "a.tokens");
  file.verify();
  CHECK(file.tokens() == 3);
  CHECK(file.bytes_per_token() == 2);
  std::vector<std::int32_t> tokens(2);
  std::vector<std::int32_t> targets(2);
  file.sample(0, 2, tokens, targets);
  CHECK(tokens == std::vector<std::int32_t>{1, 256});
  CHECK(targets == std::vector<std::int32_t>{256, 65'535});
}

TEST_CASE("the digest is the SHA-256 of the payload alone") {
  const TemporaryFolder folder;
  write_tokens(folder / "a.tokens", 256, "abc");
  CHECK(TokenFile(folder / "a.tokens").digest() ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(std::filesystem::file_size(folder / "a.tokens") == kTokenHeaderBytes + 3);
}

TEST_CASE("a token outside the vocabulary is found by verify and by sample") {
  const TemporaryFolder folder;
  write_tokens(folder / "a.tokens", 100, "ab\x64");  // the last token is 100
  const TokenFile file(folder / "a.tokens");
  CHECK(code_of(folder / "a.tokens") == "NQD2005");
  std::vector<std::int32_t> tokens(2);
  std::vector<std::int32_t> targets(2);
  CHECK_THROWS_AS(file.sample(0, 2, tokens, targets), Error);
}

TEST_CASE("missing, empty, foreign and truncated files are refused with expected and found sizes") {
  const TemporaryFolder folder;
  CHECK(code_of(folder / "missing.tokens") == "NQD2001");
  CHECK(code_of(folder.path()) == "NQD2001");
  write_file(folder / "empty.tokens", "");
  CHECK(code_of(folder / "empty.tokens") == "NQD2005");
  CHECK(message_of(folder / "empty.tokens").find("empty") != std::string::npos);
  write_file(folder / "foreign.tokens", std::string(1000, 'x'));
  CHECK(code_of(folder / "foreign.tokens") == "NQD2005");

  write_tokens(folder / "good.tokens", 256, std::string(100, 'a'));
  const std::string good = read_file(folder / "good.tokens");
  for (std::size_t size = 1; size < good.size(); ++size) {
    write_file(folder / "short.tokens", good.substr(0, size));
    INFO("size = ", size);
    REQUIRE(code_of(folder / "short.tokens") == "NQD2005");
  }
  write_file(folder / "short.tokens", good.substr(0, good.size() - 1));
  const std::string message = message_of(folder / "short.tokens");
  CHECK(message.find("100 tokens") != std::string::npos);
  CHECK(message.find("99 bytes") != std::string::npos);
  write_file(folder / "long.tokens", good + "b");
  CHECK(code_of(folder / "long.tokens") == "NQD2005");
}

TEST_CASE("every damaged header field and a changed payload are found") {
  const TemporaryFolder folder;
  write_tokens(folder / "good.tokens", 256, "some text");
  REQUIRE(code_of(folder / "good.tokens") == "no error");
  const std::string good = read_file(folder / "good.tokens");
  // Magic, version, bytes per token, vocabulary, count, digest, payload.
  for (const std::size_t offset : {0u, 8u, 12u, 17u, 24u, 31u, 32u, 63u, 64u, 72u}) {
    INFO("offset = ", offset);
    const std::string flipped(1, static_cast<char>(good[offset] ^ 0x55));
    CHECK(code_of(damaged(folder, good, offset, flipped)) == "NQD2005");
  }
}

TEST_CASE("no single flipped bit of a token file passes unseen") {
  const TemporaryFolder folder;
  write_tokens(folder / "good.tokens", 256, "0123456789");
  const std::string good = read_file(folder / "good.tokens");
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    const std::string flipped(1, static_cast<char>(good[bit / 8] ^ (1 << bit % 8)));
    INFO("bit = ", bit);
    CHECK(code_of(damaged(folder, good, bit / 8, flipped)) == "NQD2005");
  }
}

TEST_CASE("an evaluation of few samples takes them evenly apart") {
  const TemporaryFolder folder;
  write_tokens(folder / "a.tokens", 256, "abcdefghijk");
  const TokenSamples file(TokenFile(folder / "a.tokens"), 1);
  REQUIRE(file.samples() == 10);
  MemoryLedger ledger;
  MicroBatch batch(3, {.inputs = 1, .targets = 1}, ledger);
  const auto tokens = [&] {
    std::vector<std::int32_t> values(3);
    std::memcpy(values.data(), batch.inputs().data(), 12);
    return values;
  };
  const HeldoutSamples four{4, 10};
  batch.load_heldout(file, four, 0, 3);
  CHECK(tokens() == std::vector<std::int32_t>{'a', 'c', 'f'});
  batch.load_heldout(file, four, 3, 1);
  CHECK(tokens() == std::vector<std::int32_t>{'h', 0, 0});
  CHECK(batch.targets()[0] == 'i');
  CHECK(batch.targets()[1] == kMaskedTarget);
  const HeldoutSamples all{10, 10};
  for (std::uint64_t i = 0; i < 10; ++i) CHECK(all.at(i) == i);
  // No overflow where a product of the two would.
  CHECK(HeldoutSamples{1'000'000'000, 10'000'000'000'000'000'000U}.at(999'999'999) ==
        9'999'999'990'000'000'000U);
}

TEST_CASE("an abandoned writer leaves nothing behind") {
  const TemporaryFolder folder;
  {
    TokenFileWriter writer(folder / "a.tokens", 256);
    writer.append("abc");
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace nqd::engine
