#include "reports/json_writer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace nqd::reports {

TEST_CASE("numbers read back as the same double, and whole ones look whole") {
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(1.0 / 3) == "0.3333333333333333");
  CHECK(json_number(3) == "3");
  CHECK(json_number(-2) == "-2");
  CHECK(json_number(12961382400.0) == "12961382400");
  CHECK(json_number(5e-324) == "5e-324");
  CHECK(json_number(1e300) == "1e+300");
  for (const double value : {0.1 + 0.2, 1e-7 / 3, 6.02214076e23, 9007199254740993.0}) {
    CHECK(std::stod(json_number(value)) == value);
  }
}

TEST_CASE("what is not finite is null") {
  CHECK(json_number(std::nan("")) == "null");
  CHECK(json_number(std::numeric_limits<double>::infinity()) == "null");
  CHECK(json_number(-std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("strings are escaped and always UTF-8") {
  CHECK(json_string("a\"b\\c") == R"("a\"b\\c")");
  CHECK(json_string("line\n\ttab\r") == R"("line\n\ttab\r")");
  CHECK(json_string(std::string_view("\x01\x1f\x7f\0", 4)) == R"("\u0001\u001f\u007f\u0000")");
  CHECK(json_string("α–β 😀") == "\"α–β 😀\"");
  CHECK(json_string("\xff") == "\"\xef\xbf\xbd\"");
  CHECK(json_string("a\xc3") == "\"a\xef\xbf\xbd\"");                // cut off in a sequence
  CHECK(json_string("\xc0\xaf") == "\"\xef\xbf\xbd\xef\xbf\xbd\"");  // overlong '/'
  // A surrogate: each of its three bytes is replaced.
  CHECK(json_string("\xed\xa0\x80") == "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST_CASE("layouts") {
  using Layout = JsonWriter::Layout;
  JsonWriter json;
  json.begin_object();
  json.field("a", 1).field("b", std::optional<int>()).field("c", true);
  json.key("d").begin_array(Layout::kInline).value(1.5).value("x").begin_object();
  json.field("e", std::numeric_limits<std::uint64_t>::max()).end().end();
  json.key("f").begin_array().end();
  json.key("g").begin_array().begin_object(Layout::kInline).field("h", -1).end().null().end();
  json.end();
  CHECK(json.take() ==
        "{\n  \"a\": 1,\n  \"b\": null,\n  \"c\": true,\n"
        "  \"d\": [1.5, \"x\", {\"e\": 18446744073709551615}],\n  \"f\": [],\n"
        "  \"g\": [\n    {\"h\": -1},\n    null\n  ]\n}\n");
}

TEST_CASE("a single-line document has no newline") {
  JsonWriter json;
  json.begin_object(JsonWriter::Layout::kInline).field("step", 1).end();
  CHECK(json.take() == "{\"step\": 1}");
}

}  // namespace nqd::reports
