// A file's content without a copy of it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace nqd {

// A read-only mapping of a whole regular file; empty for an empty file. Who truncates the file
// while it is mapped takes pages away: reading them ends the process (SIGBUS).
class MappedFile {
 public:
  // Throws Error (kUsage, NQD2001) with `hint` when the file cannot be read.
  MappedFile(const std::filesystem::path& path, const std::string& hint);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace nqd
