// A file of lines that grows: each line is on the disk before the next begins.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace nqd {

class LineFile {
 public:
  // Opens or creates the file, and changes nothing in it yet. Throws Error (kUsage, NQD2002) when
  // it cannot be written.
  explicit LineFile(std::filesystem::path path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // The first line of what was there, without its newline; empty for a new file.
  const std::string& first_line() const { return first_line_; }
  // Adds `line` and a newline in one write, then syncs. The first call cuts off bytes after the
  // last newline: a process was killed as it wrote them. Throws Error (kFault, NQD4003) when the
  // disk is full.
  void append(std::string_view line);

 private:
  std::filesystem::path path_;
  std::string first_line_;
  int descriptor_ = -1;
  std::size_t torn_at_ = kWhole;  // where such bytes begin
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);
};

}  // namespace nqd
