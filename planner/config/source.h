// A named text with line numbers: where every diagnostic of the config loader points.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace nqd::planner {

// 1-based; columns count bytes. Line 0 means the whole text.
struct Place {
  int line = 0;
  int column = 0;
};

class Source {
 public:
  // A leading UTF-8 byte-order mark is dropped.
  Source(std::string name, std::string text);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  // Without its line end; empty when there is no such line.
  std::string_view line(int number) const;
  int line_count() const { return static_cast<int>(line_starts_.size()); }
  // "configs/x.yaml:12", or the name alone for line 0.
  std::string label(Place place) const;

  // An error that points at the token at `place`, caret as long as the token.
  Diagnostic error(std::string code, Place place, std::string path, std::string message) const;
  // Points an existing diagnostic at `place` of this text.
  void point(Diagnostic& diagnostic, Place place) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
};

// What makes a text unfit to be parsed at all: more than 1 MiB, bytes that are not UTF-8 text, or
// indentation with tabs. Nothing when it is fit.
std::optional<Diagnostic> check_text(const Source& source);

// `text` for a message: control characters and quotes escaped, cut to `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = 40);

}  // namespace nqd::planner
