#include "base/diagnostic.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace nqd {
namespace {

Diagnostic mesh_error() {
  Diagnostic diagnostic;
  diagnostic.code = "NQD1203";
  diagnostic.where = {"configs/x.yaml", 12, 7};
  diagnostic.message = "tp does not divide heads";
  diagnostic.expected = "a divisor of 12";
  diagnostic.got = "5";
  diagnostic.hint = "tp: 4";
  diagnostic.source_line = "  tp: 5";
  diagnostic.related = {{{"configs/x.yaml", 4, 3}, "heads is 12"}};
  return diagnostic;
}

TEST_CASE("the whole form: place, code, caret line, expectation, related place, hint") {
  CHECK(format(mesh_error()) ==
        "configs/x.yaml:12:7: error[NQD1203]: tp does not divide heads\n"
        "  12 |   tp: 5\n"
        "     |       ^\n"
        "  expected a divisor of 12, got 5\n"
        "  configs/x.yaml:4:3: note: heads is 12\n"
        "  hint: tp: 4\n");
}

TEST_CASE("a finding about a whole file has no line, and empty parts leave no trace") {
  Diagnostic diagnostic;
  diagnostic.code = "NQD1001";
  diagnostic.severity = Severity::kWarning;
  diagnostic.where = {"x.yaml", 0, 0};
  diagnostic.message = "the file is empty";
  diagnostic.source_line = "never shown";
  CHECK(format(diagnostic) == "x.yaml: warning[NQD1001]: the file is empty\n");
  diagnostic.got = "nothing";
  CHECK(format(diagnostic) == "x.yaml: warning[NQD1001]: the file is empty\n  got nothing\n");
  diagnostic.got = "";
  diagnostic.expected = "a mapping";
  CHECK(format(diagnostic) ==
        "x.yaml: warning[NQD1001]: the file is empty\n  expected a mapping\n");
}

TEST_CASE("the caret spans the token, keeps tabs and widens the margin for large line numbers") {
  Diagnostic diagnostic = mesh_error();
  diagnostic.where = {"x", 123456, 3};
  diagnostic.source_line = "\t\tvalue: 1";
  diagnostic.caret_length = 5;
  diagnostic.expected = diagnostic.got = diagnostic.hint = "";
  diagnostic.related.clear();
  CHECK(format(diagnostic) ==
        "x:123456:3: error[NQD1203]: tp does not divide heads\n"
        "123456 | \t\tvalue: 1\n"
        "       | \t\t^^^^^\n");
}

TEST_CASE("a caret length below one still points") {
  Diagnostic diagnostic = mesh_error();
  diagnostic.caret_length = 0;
  CHECK(format(diagnostic).find("     |       ^\n") != std::string::npos);
}

TEST_CASE("sorting is by file, line and column, and stable at one place") {
  std::vector<Diagnostic> list(5);
  list[0].where = {"b", 1, 1};
  list[1].where = {"a", 10, 1};
  list[2].where = {"a", 9, 5};
  list[3].where = {"a", 9, 2};
  list[4].where = {"a", 9, 5};
  list[2].code = "first";
  list[4].code = "second";
  sort_by_place(list);
  CHECK(list[0].where.column == 2);
  CHECK(list[1].code == "first");
  CHECK(list[2].code == "second");
  CHECK(list[3].where.line == 10);
  CHECK(list[4].where.file == "b");
}

TEST_CASE("only errors count as errors") {
  std::vector<Diagnostic> list(2);
  list[0].severity = Severity::kWarning;
  list[1].severity = Severity::kNote;
  CHECK_FALSE(has_errors(list));
  CHECK_FALSE(has_errors({}));
  list[1].severity = Severity::kError;
  CHECK(has_errors(list));
}

TEST_CASE("severities by name") {
  CHECK(name(Severity::kError) == "error");
  CHECK(name(Severity::kWarning) == "warning");
  CHECK(name(Severity::kNote) == "note");
}

}  // namespace
}  // namespace nqd
