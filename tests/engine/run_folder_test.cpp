#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "engine/io/run_folder.h"

using namespace nqd;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  fs::path path = fs::temp_directory_path() / ("nqd_run_folder_" + std::to_string(::getpid()));
  Scratch() { fs::remove_all(path); }
  ~Scratch() { fs::remove_all(path); }
};

Error failure(const fs::path& path, std::uint64_t bytes = 0) {
  try {
    engine::RunFolder folder(path, bytes);
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::kOk, "", "no error"};
}

}  // namespace

TEST_CASE("a run folder is made, and holds whole metrics lines") {
  const Scratch scratch;
  engine::RunFolder folder(scratch.path / "a" / "b", 0);
  folder.append_metrics("{\"step\":1}");
  folder.append_metrics("{\"step\":2}");
  CHECK(read_file(folder.metrics_path()) == "{\"step\":1}\n{\"step\":2}\n");
}

TEST_CASE("a second run is kept out while the first holds the folder, and let in after") {
  const Scratch scratch;
  {
    const engine::RunFolder first(scratch.path, 0);
    const Error error = failure(scratch.path);
    CHECK(error.code() == "NQD2010");
    CHECK(error.exit_code() == ExitCode::kEnvironment);
    CHECK(std::string(error.what()).find(std::to_string(::getpid())) != std::string::npos);
  }
  CHECK(failure(scratch.path).exit_code() == ExitCode::kOk);
}

TEST_CASE("results of an earlier run are kept aside, once there are new ones") {
  const Scratch scratch;
  { engine::RunFolder(scratch.path, 0).append_metrics("old"); }
  write_file(scratch.path / "evidence.json", "old");
  // A run that is refused changes nothing.
  { const engine::RunFolder refused(scratch.path, 0); }
  CHECK(read_file(scratch.path / "metrics.jsonl") == "old\n");
  CHECK(read_file(scratch.path / "evidence.json") == "old");
  engine::RunFolder folder(scratch.path, 0);
  folder.append_metrics("new");
  CHECK(read_file(scratch.path / "evidence.previous.json") == "old");
  CHECK_FALSE(fs::exists(folder.evidence_path()));
  CHECK(read_file(folder.metrics_path()) == "new\n");
  CHECK(read_file(scratch.path / "metrics.previous.jsonl") == "old\n");
}

TEST_CASE("evidence that a killed run left unfinished is removed, and nothing else") {
  const Scratch scratch;
  fs::create_directories(scratch.path);
  write_file(scratch.path / "evidence.json.tmp.1.0", "half");
  write_file(scratch.path / "evidence.json", "whole");
  const engine::RunFolder folder(scratch.path, 0);
  CHECK_FALSE(fs::exists(scratch.path / "evidence.json.tmp.1.0"));
  CHECK(read_file(folder.evidence_path()) == "whole");
}

TEST_CASE("no space and no permission are told before the run") {
  const Scratch scratch;
  const Error full = failure(scratch.path, 1ull << 60);
  CHECK(full.code() == "NQD4003");
  CHECK(full.exit_code() == ExitCode::kFault);
  const Error unwritable = failure("/proc/nqd/run");
  CHECK(unwritable.code() == "NQD2002");
  CHECK(unwritable.exit_code() == ExitCode::kUsage);
}

TEST_CASE("metrics go on behind the last line of the step, whatever a roll-back made twice") {
  const Scratch scratch;
  const auto step = [](int number) { return "{\"step\": " + std::to_string(number) + "}\n"; };
  const std::string back = "{\"step\": 3, \"roll_back\": {\"to_step\": 1}}\n";
  const auto kept = [&](std::int64_t after) {
    fs::remove_all(scratch.path);
    fs::create_directories(scratch.path);
    write_file(scratch.path / "metrics.jsonl", step(1) + step(2) + step(3) + back + step(2) +
                                                   step(3) + step(4) + "{\"resumed_after\": 9}\n");
    engine::RunFolder folder(scratch.path, 0);
    folder.continue_after(after);
    const std::string text = read_file(folder.metrics_path());
    return text.substr(0, text.find("{\"resumed_after\""));
  };
  CHECK(kept(1) == step(1));
  CHECK(kept(2) == step(1) + step(2) + step(3) + back + step(2));
  CHECK(kept(4) == step(1) + step(2) + step(3) + back + step(2) + step(3) + step(4));
  CHECK(kept(7) == kept(4));
  CHECK(kept(0).empty());
}
