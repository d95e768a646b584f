// A finding about a place in an input file, and how a person reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nqd {

enum class Severity { kError, kWarning, kNote };
std::string_view name(Severity severity);

// 1-based; line 0 means "the whole file" (or a --set flag: `file` is then "--set").
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
};

struct RelatedPlace {
  SourceLocation where;
  std::string message;
};

struct Diagnostic {
  std::string code;  // "NQD1203"
  Severity severity = Severity::kError;
  SourceLocation where;
  std::string path;      // dotted key: "parallel.tp"
  std::string message;   // one sentence, no full stop
  std::string expected;  // may be empty
  std::string got;       // may be empty
  std::string hint;      // a valid edit; may be empty
  std::string source_line;
  int caret_length = 1;
  std::vector<RelatedPlace> related;
};

// Sorts by file, line, column; equal places keep their order.
void sort_by_place(std::vector<Diagnostic>& diagnostics);
bool has_errors(const std::vector<Diagnostic>& diagnostics);

// file:line:col: error[NQD1203]: message
//    4 |   tp: 3
//      |       ^
//   expected … got …
//   hint: …
// Ends in a newline. Plain text, no colour.
std::string format(const Diagnostic& diagnostic);

}  // namespace nqd
