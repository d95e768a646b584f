#include "base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "tests/temporary_folder.h"

namespace nqd {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::kOk, "no error", ""};
}

TEST_CASE("a file reads back as written, zero bytes and line ends included") {
  const TemporaryFolder folder;
  std::string bytes("a\0b\r\n\xff", 6);
  bytes += std::string(200'000, 'x');
  write_file(folder / "f", bytes);
  CHECK(read_file(folder / "f") == bytes);
  write_file(folder / "f", "");
  CHECK(read_file(folder / "f").empty());
}

TEST_CASE("what cannot be read is named with its reason") {
  const TemporaryFolder folder;
  const Error missing = error_of([&] { read_file(folder / "missing"); });
  CHECK(missing.code() == "NQD2001");
  CHECK(missing.exit_code() == ExitCode::kUsage);
  CHECK(std::string(missing.what()) ==
        "cannot read " + (folder / "missing").string() + ": No such file or directory");
  CHECK(std::string(error_of([&] { read_file(folder.path()); }).what()).find("it is a folder") !=
        std::string::npos);
  CHECK(error_of([&] { read_file("/dev/zero"); }).code() == "NQD2001");
}

TEST_CASE("the final name changes only at commit, and an abandoned file leaves no trace") {
  const TemporaryFolder folder;
  write_file(folder / "f", "old");
  {
    AtomicFile file(folder / "f");
    file.write("new");
    file.sync();
    CHECK(read_file(folder / "f") == "old");
    CHECK(entries_in(folder.path()) == 2);
  }
  CHECK(read_file(folder / "f") == "old");
  CHECK(entries_in(folder.path()) == 1);
  {
    AtomicFile file(folder / "f");
    file.write("ne");
    file.write("w");
    file.commit();
    CHECK(read_file(folder / "f") == "new");
    CHECK(entries_in(folder.path()) == 1);
  }
  CHECK(read_file(folder / "f") == "new");
}

TEST_CASE("overwrite replaces bytes in place and leaves the end where it was") {
  const TemporaryFolder folder;
  AtomicFile file(folder / "f");
  file.write("0123456789");
  file.overwrite(2, "ab");
  file.write("!");
  file.commit();
  CHECK(read_file(folder / "f") == "01ab456789!");
}

TEST_CASE("two unfinished files of one name do not share a temporary") {
  const TemporaryFolder folder;
  AtomicFile first(folder / "f");
  AtomicFile second(folder / "f");
  first.write("first");
  second.write("second");
  second.commit();
  CHECK(read_file(folder / "f") == "second");
  first.commit();
  CHECK(read_file(folder / "f") == "first");
  CHECK(entries_in(folder.path()) == 1);
}

TEST_CASE("outputs that cannot be written are known at construction") {
  const TemporaryFolder folder;
  const Error missing = error_of([&] { AtomicFile(folder / "no/such/f"); });
  CHECK(missing.code() == "NQD2002");
  CHECK(missing.exit_code() == ExitCode::kUsage);
  CHECK(error_of([&] { AtomicFile(folder.path()); }).code() == "NQD2002");
  // A rename would replace the device itself.
  CHECK(error_of([&] { AtomicFile("/dev/null"); }).code() == "NQD2002");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(entries_in(folder.path()) == 0);
}

TEST_CASE("a link is written through, and a private file stays private") {
  const TemporaryFolder folder;
  write_file(folder / "target", "old");
  fs::permissions(folder / "target", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("target", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "target") == "new");
  CHECK(fs::status(folder / "target").permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a file-size limit is an error that keeps the old content and removes the temporary") {
  const TemporaryFolder folder;
  write_file(folder / "f", "old");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit limit{1000, before.rlim_max};
  const Error error = error_of([&] {
    AtomicFile file(folder / "f");
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    file.write(std::string(5000, 'x'));
    file.commit();
  });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(error.code() == "NQD4003");
  CHECK(error.exit_code() == ExitCode::kFault);
  CHECK(std::string(error.what()).find("File too large") != std::string::npos);
  CHECK(read_file(folder / "f") == "old");
  CHECK(entries_in(folder.path()) == 1);
}

TEST_CASE("a full device is an error of the run, not of the arguments") {
  const TemporaryFolder folder;
  AtomicFile file(folder / "f");
  // The temporary's name is replaced by the device that is always full.
  fs::path temporary;
  for (const auto& entry : fs::directory_iterator(folder.path())) temporary = entry.path();
  const int full = ::open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  for (int descriptor = 3; descriptor < full; ++descriptor) {
    std::error_code failure;
    if (fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), failure) == temporary) {
      REQUIRE(::dup2(full, descriptor) == descriptor);
    }
  }
  ::close(full);
  const Error error = error_of([&] { file.write("x"); });
  CHECK(error.code() == "NQD4003");
  CHECK(std::string(error.what()).find("No space left") != std::string::npos);
}

TEST_CASE("SHA-256 of the standard's examples, whole and in parts") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 parts;
  parts.update("a");
  parts.update("");
  parts.update("bc");
  CHECK(parts.hex() == sha256_hex("abc"));
  const std::string million(1'000'000, 'a');
  CHECK(sha256_hex(million) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace nqd
