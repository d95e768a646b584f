// What `prepare_dataset` leaves behind when it fails: nothing new, and the old dataset whole.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "engine/data/dataset.h"
#include "engine/data/verify.h"
#include "tests/temporary_folder.h"

namespace nqd::engine {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// A soft limit on the size of written files, put back at the end.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_) == 0);
    const rlimit limit{bytes, old_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &old_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
};

// A file system in memory of the given size; `mounted` is false where that is not permitted.
class SmallDisk {
 public:
  SmallDisk(const fs::path& at, const std::string& size) : at_(at) {
    fs::create_directory(at_);
    mounted_ = ::mount("tmpfs", at_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount(at_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  fs::path at_;
  bool mounted_ = false;
};

std::string text_of(std::size_t lines, char letter) {
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) text += std::string(63, letter) + "\n";
  return text;
}

PrepareOptions options_for(std::vector<fs::path> inputs, const fs::path& output) {
  PrepareOptions options;
  options.inputs = std::move(inputs);
  options.output = output;
  return options;
}

struct Outcome {
  std::string code = "no error";
  ExitCode exit_code = ExitCode::kOk;
};

Outcome outcome_of(const PrepareOptions& options) {
  try {
    prepare_dataset(options);
  } catch (const Error& error) {
    return {error.code(), error.exit_code()};
  }
  return {};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

const std::vector<std::string> kDatasetNames = {"dataset.json", "heldout.tokens", "train.tokens"};

TEST_CASE("a file-size limit is an error, and a new output folder does not appear") {
  const TemporaryFolder folder;
  write_file(folder / "text", text_of(1000, 'a'));
  {
    const FileSizeLimit limit(16 * 1024);
    const Outcome outcome = outcome_of(options_for({folder / "text"}, folder / "new/out"));
    CHECK(outcome.code == "NQD4003");
    CHECK(outcome.exit_code == ExitCode::kFault);
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"text"});
}

TEST_CASE("a file-size limit leaves an earlier dataset as it was") {
  const TemporaryFolder folder;
  write_file(folder / "short", text_of(20, 'a'));
  write_file(folder / "long", text_of(1000, 'b'));
  const PrepareResult before = prepare_dataset(options_for({folder / "short"}, folder / "out"));
  {
    const FileSizeLimit limit(16 * 1024);
    CHECK(outcome_of(options_for({folder / "long"}, folder / "out")).code == "NQD4003");
  }
  CHECK(names_in(folder / "out") == kDatasetNames);
  CHECK(verify_dataset(folder / "out").digest == before.digest);
}

TEST_CASE("a full disk leaves an earlier dataset as it was, and nothing half written") {
  const TemporaryFolder folder;
  const SmallDisk disk(folder / "disk", "96k");
  if (!disk.mounted()) {
    MESSAGE("skipped: mounting a tmpfs needs root");
    return;
  }
  write_file(folder / "short", text_of(20, 'a'));
  const PrepareResult before =
      prepare_dataset(options_for({folder / "short"}, folder / "disk/out"));
  // Sizes that run out in either token file, at page steps down to a disk just too small.
  for (std::size_t lines = 4000; lines >= 1300; lines -= 50) {
    write_file(folder / "long", text_of(lines, 'b'));
    INFO("lines = ", lines);
    const Outcome outcome = outcome_of(options_for({folder / "long"}, folder / "disk/out"));
    REQUIRE(outcome.code == "NQD4003");
    REQUIRE(outcome.exit_code == ExitCode::kFault);
    REQUIRE(names_in(folder / "disk/out") == kDatasetNames);
    REQUIRE(verify_dataset(folder / "disk/out").digest == before.digest);
    REQUIRE(outcome_of(options_for({folder / "long"}, folder / "disk/new")).code == "NQD4003");
    REQUIRE(names_in(folder / "disk") == std::vector<std::string>{"out"});
  }
}

TEST_CASE("unreadable and empty inputs and bad shares are refused before anything is written") {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  write_file(folder / "line", "one line without an end");
  fs::create_directory(folder / "nothing");
  const fs::path output = folder / "out";
  CHECK(outcome_of(options_for({folder / "missing"}, output)).code == "NQD2001");
  CHECK(outcome_of(options_for({folder / "empty"}, output)).code == "NQD2003");
  CHECK(outcome_of(options_for({folder / "nothing"}, output)).code == "NQD2003");
  CHECK(outcome_of(options_for({folder / "line"}, output)).code == "NQD2004");
  PrepareOptions options = options_for({folder / "line"}, output);
  for (const double share : {0.0, 1.0, -0.1, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    options.heldout_fraction = share;
    CHECK(outcome_of(options).code == "NQD2008");
  }
  CHECK(outcome_of(options).exit_code == ExitCode::kUsage);
  CHECK_FALSE(fs::exists(output));
}

TEST_CASE("two equal halves cannot hold out more than one of them") {
  const TemporaryFolder folder;
  write_file(folder / "a", text_of(10, 'a'));
  write_file(folder / "b", text_of(10, 'b'));
  PrepareOptions options = options_for({folder / "a", folder / "b"}, folder / "out");
  options.heldout_fraction = 0.6;
  CHECK(outcome_of(options).code == "NQD2004");
  CHECK_FALSE(fs::exists(folder / "out"));
}

TEST_CASE("an output that is a file, or below one, is refused") {
  const TemporaryFolder folder;
  write_file(folder / "text", text_of(100, 'a'));
  CHECK(outcome_of(options_for({folder / "text"}, folder / "text")).code == "NQD2002");
  CHECK(outcome_of(options_for({folder / "text"}, folder / "text/below")).code == "NQD2002");
  CHECK(read_file(folder / "text") == text_of(100, 'a'));
}

TEST_CASE("a read-only output folder is refused") {
  if (::geteuid() == 0) return;  // root writes everywhere
  const TemporaryFolder folder;
  write_file(folder / "text", text_of(100, 'a'));
  fs::create_directory(folder / "out");
  fs::permissions(folder / "out", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(outcome_of(options_for({folder / "text"}, folder / "out")).code == "NQD2002");
  fs::permissions(folder / "out", fs::perms::owner_all);
}

}  // namespace
}  // namespace nqd::engine
