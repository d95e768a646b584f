#include "engine/data/related.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace nqd::engine {
namespace {

using Groups = std::vector<std::size_t>;

// `count` words that no other `first` shares.
std::string words(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "w" + std::to_string(first + i) + " ";
  return text;
}

std::vector<Passages> passages(const std::vector<std::string>& texts) {
  std::vector<Passages> sets;
  for (const std::string& text : texts) sets.push_back(passages_of(text));
  return sets;
}

TEST_CASE("a passage is eight words in a row, whatever space is between them") {
  CHECK(passages_of("").empty());
  CHECK(passages_of("a b c d e f g").empty());
  CHECK(passages_of("a b c d e f g h").size() == 1);
  CHECK(passages_of("a b c d e f g h i").size() == 2);
  CHECK(passages_of(words(0, 100)).size() == 93);
  CHECK(passages_of(" a\nb\t c d\r\ne f  g h\n") == passages_of("a b c d e f g h"));
  CHECK(passages_of("a b c d e f g h") != passages_of("b a c d e f g h"));
  CHECK(passages_of("ab c d e f g h i") != passages_of("a bc d e f g h i"));
}

TEST_CASE("a passage that occurs twice counts once") {
  const std::string eight = words(0, 8);
  CHECK(passages_of(eight + eight).size() == 8);
  CHECK(passages_of(eight + eight + eight).size() == 8);
}

TEST_CASE("a sample keeps about its share of the passages and is a subset") {
  const Passages all = passages_of(words(0, 20'007));
  const Passages some = passages_of(words(0, 20'007), 10);
  REQUIRE(all.size() == 20'000);
  CHECK(some.size() > 1'750);
  CHECK(some.size() < 2'250);
  CHECK(std::includes(all.begin(), all.end(), some.begin(), some.end()));
}

TEST_CASE("texts are related from a quarter of the smaller one on") {
  // 100 passages each, of which 25 and then 24 are common.
  const std::string common_25 = words(0, 32);
  CHECK(related_groups(passages({common_25 + words(1000, 75), common_25 + words(2000, 75)})) ==
        Groups{0, 0});
  const std::string common_24 = words(0, 31);
  CHECK(related_groups(passages({common_24 + words(1000, 76), common_24 + words(2000, 76)})) ==
        Groups{0, 1});
  // A short quotation inside a long text relates to it.
  CHECK(related_groups(passages({words(0, 5000), words(100, 30)})) == Groups{0, 0});
}

TEST_CASE("relation carries over, and groups are numbered by their first member") {
  const std::string a = words(0, 100);
  const std::string b = words(60, 100);
  const std::string c = words(120, 100);  // shares with b, not with a
  CHECK(related_groups(passages({words(900, 50), a, c, "few words", b})) == Groups{0, 1, 1, 2, 1});
  CHECK(related_groups({}) == Groups{});
}

TEST_CASE(
    "boilerplate in a hundred texts relates none of them, a hundred revisions are one group") {
  std::vector<std::string> texts;
  std::vector<std::string> revisions;
  for (int i = 0; i < 100; ++i) {
    texts.push_back(words(0, 20) + words(1000 * (i + 1), 200));
    revisions.push_back(words(0, 200) + words(1000 * (i + 1), 20));
  }
  const Groups separate = related_groups(passages(texts));
  for (std::size_t i = 0; i < 100; ++i) CHECK(separate[i] == i);
  CHECK(related_groups(passages(revisions)) == Groups(100, 0));
}

}  // namespace
}  // namespace nqd::engine
