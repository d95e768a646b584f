// Files that are either whole or absent, and the digests that name their content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace nqd {

// Reads a whole regular file (or a pipe to its end). Throws Error (kUsage, NQD2001) that names the
// path and the reason.
std::string read_file(const std::filesystem::path& path);

// A file under construction beside its final name. The constructor opens the temporary file, so an
// output that cannot be written is known before the work starts (Error kUsage, NQD2002). `commit`
// syncs the file, renames it over the final name and syncs the directory; a full disk or a
// file-size limit is an Error (kFault, NQD4003) and the final name keeps its old content. The
// destructor removes an uncommitted temporary.
//
// A link to a file is written through; a device, pipe or folder is refused. The mode of a replaced
// file is kept. The first use ignores SIGXFSZ when nobody else handles it: a file-size limit has to
// be an error, not the death of the process that leaves its temporary behind.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends to the temporary file.
  void write(std::string_view bytes);
  // Replaces bytes that were written before, e.g. a header whose values are known last.
  void overwrite(std::uint64_t offset, std::string_view bytes);
  // Brings the temporary to the disk, still under its temporary name. Of several files that belong
  // together, sync each before the first commit: a full disk is then known while nothing is
  // replaced.
  void sync();
  // At most once.
  void commit();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

// AtomicFile, write, commit in one call.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// SHA-256 of bytes that arrive in parts. `hex` ends it: no update afterwards.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  std::string hex();  // lower case, 64 digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// SHA-256 of one block in lower-case hexadecimal.
std::string sha256_hex(std::string_view bytes);

}  // namespace nqd
