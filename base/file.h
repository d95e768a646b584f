// Files that are either whole or absent.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace nqd {

// Reads a whole regular file. Throws Error (kUsage, NQD2001) that names the path and the reason.
std::string read_file(const std::filesystem::path& path);

// A file under construction beside its final name. The constructor opens the temporary file, so an
// output that cannot be written is known before the work starts (Error kUsage, NQD2002). `commit`
// writes, syncs the file, renames it over the final name and syncs the directory; a full disk is an
// Error (kFault, NQD4003) and the final name keeps its old content. The destructor removes an
// uncommitted temporary.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends to the temporary file.
  void write(std::string_view bytes);
  void commit();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

// AtomicFile, write, commit in one call.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// SHA-256 in lower-case hexadecimal.
std::string sha256_hex(std::string_view bytes);

}  // namespace nqd
