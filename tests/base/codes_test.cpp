#include "base/codes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace nqd {
namespace {

TEST_CASE("codes are NQD and four digits, ascending and therefore unique") {
  REQUIRE(all_codes().size() > 10);
  std::string last;
  for (const CodeInfo& info : all_codes()) {
    INFO(info.code);
    CHECK(info.code.size() == 7);
    CHECK(info.code.starts_with("NQD"));
    CHECK(std::all_of(info.code.begin() + 3, info.code.end(),
                      [](char digit) { return digit >= '0' && digit <= '9'; }));
    CHECK(last < info.code);
    last = info.code;
  }
}

TEST_CASE("every code has a title without a full stop and an explanation with one") {
  for (const CodeInfo& info : all_codes()) {
    INFO(info.code);
    CHECK_FALSE(info.title.empty());
    CHECK_FALSE(info.title.ends_with('.'));
    CHECK(info.explanation.ends_with('.'));
  }
}

TEST_CASE("find_code finds each code and nothing else") {
  for (const CodeInfo& info : all_codes()) CHECK(find_code(info.code) == &info);
  CHECK(find_code("NQD0000") == nullptr);
  CHECK(find_code("NQD2001 ") == nullptr);
  CHECK(find_code("nqd2001") == nullptr);
  CHECK(find_code("") == nullptr);
}

}  // namespace
}  // namespace nqd
