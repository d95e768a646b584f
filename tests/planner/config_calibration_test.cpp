// Calibration files: written, read back, refused when anything is off, and layered into a config.
#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "planner/calibration/calibration.h"
#include "planner/config/calibration_reader.h"
#include "planner/config/config.h"

namespace nqd::planner {
namespace {

Calibration sample() {
  Calibration calibration;
  calibration.source = "runs/q/bench.json, host \"h\"\nline two";
  calibration.gemm_flops = 1.25e11;
  calibration.memory_bandwidth_bytes_per_s = 2.5e10;
  calibration.curves = {
      {"all_reduce", "ring", 2, {{4096, 65536, 1.5e-6, 2.5e-10}, {65536, 1 << 26, 0, 4e-10}}, 0.04},
      {"broadcast", "tree", 8, {{1, 2, 0.1, 0.2}}, 0, false}};
  return calibration;
}

// A file in a folder of its own, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    folder_ = std::filesystem::temp_directory_path() /
              ("nqd_calibration_test." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    write_file(path(), text);
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return (folder_ / "c.yaml").string(); }

 private:
  std::filesystem::path folder_;
};

TEST_CASE("a calibration reads back as it was written") {
  const Calibration written = sample();
  const TemporaryFile file(calibration_yaml(written));
  const Calibration read = read_calibration(file.path());
  CHECK(read.source == written.source);
  CHECK(read.gemm_flops == written.gemm_flops);
  CHECK(read.memory_bandwidth_bytes_per_s == written.memory_bandwidth_bytes_per_s);
  REQUIRE(read.curves.size() == 2);
  CHECK(read.curves[0].collective == "all_reduce");
  CHECK(read.curves[0].algorithm == "ring");
  CHECK(read.curves[0].ranks == 2);
  CHECK(read.curves[0].max_residual_fraction == 0.04);
  REQUIRE(read.curves[0].pieces.size() == 2);
  CHECK(read.curves[0].pieces[0].alpha_s == 1.5e-6);
  CHECK(read.curves[0].pieces[1].from_bytes == 65536);
  CHECK(read.curves[0].pieces[1].beta_s_per_byte == 4e-10);
  CHECK(calibration_yaml(read) == calibration_yaml(written));
  CHECK(read.curves[0].inside_node);
  CHECK_FALSE(read.curves[1].inside_node);
}

TEST_CASE("a rate that was not measured is absent from the file") {
  Calibration calibration;
  calibration.source = "s";
  const std::string text = calibration_yaml(calibration);
  CHECK(text.find("gemm_flops") == std::string::npos);
  CHECK(text.find("memory_bandwidth") == std::string::npos);
  const TemporaryFile file(text);
  CHECK(read_calibration(file.path()).gemm_flops == 0);
  CHECK(read_calibration(file.path()).curves.empty());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a curve is of ranks inside a node unless it says otherwise") {
  const std::string good = calibration_yaml(sample());
  std::vector<Diagnostic> found;
  const std::optional<Calibration> read =
      parse_calibration(Source("c.yaml", replaced(good, "    inside_node: false\n", "")), found);
  REQUIRE(read);
  CHECK(read->curves[1].inside_node);
}

TEST_CASE("two curves of one collective, algorithm, number of ranks and place are refused") {
  Calibration twice = sample();
  twice.curves.push_back(twice.curves[0]);
  std::vector<Diagnostic> found;
  CHECK_FALSE(parse_calibration(Source("c.yaml", calibration_yaml(twice)), found));
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == "NQD1011");
  CHECK(found[0].message ==
        "curves[2] is a second curve of all_reduce (ring) for 2 ranks inside a node, after "
        "curves[0]");
  twice.curves[2].inside_node = false;
  found.clear();
  CHECK(parse_calibration(Source("c.yaml", calibration_yaml(twice)), found));
}

TEST_CASE("each departure from the format is one finding with its place") {
  const std::string good = calibration_yaml(sample());
  struct Case {
    std::string from, to, message;
  };
  const std::vector<Case> cases = {
      {"alpha_s: 1.5e-06", "alpha_s: -1.5e-06",
       "curves[0].pieces[0].alpha_s is negative: -1.5e-06"},
      {"alpha_s: 1.5e-06", "alpha_s: fast",
       "curves[0].pieces[0].alpha_s must be a finite number, not string \"fast\""},
      {"alpha_s: 1.5e-06", "alpha_s: .nan",
       "curves[0].pieces[0].alpha_s must be a finite number, not number .nan"},
      {"alpha_s: 1.5e-06, ", "", "curves[0].pieces[0] lacks alpha_s"},
      {"alpha_s: 1.5e-06", "alpha: 1.5e-06",
       "there is no key \"alpha\" in a calibration's curves[0].pieces[0]"},
      {"from_bytes: 65536", "from_bytes: 70000",
       "curves[0].pieces[1] does not start where the piece before it ends"},
      {"to_bytes: 65536", "to_bytes: 4095", "curves[0].pieces[0] ends before it starts"},
      {"ranks: 2", "ranks: 0", "curves[0].ranks must be at least 1, not 0"},
      {"inside_node: true", "inside_node: yes",
       "curves[0].inside_node must be true or false, not string \"yes\""},
      {"ranks: 2", "ranks: 2.5", "curves[0].ranks must be an integer, not number 2.5"},
      {"all_reduce", "all_produce", "curves[0] has an unknown collective all_produce"},
      {"ring", "circle", "curves[0] has an unknown algorithm circle"},
      {"version: 1", "version: 2", "calibration version 2 is not one that this nqd reads (1)"},
      {"gemm_flops: ", "gemm_flop: ", "there is no key \"gemm_flop\" in a calibration"},
  };
  for (const Case& item : cases) {
    INFO(item.to);
    std::vector<Diagnostic> found;
    CHECK_FALSE(parse_calibration(Source("c.yaml", replaced(good, item.from, item.to)), found));
    REQUIRE_FALSE(found.empty());
    CHECK(found[0].message == item.message);
    CHECK(found[0].code == "NQD1011");
    CHECK(found[0].where.line > 0);
  }
}

TEST_CASE("texts that are no calibration at all") {
  for (const std::string text :
       {"", "5", "[1]", "model: {preset: gpt2-124m}", "curves: 3", "{", "\t"}) {
    INFO(text);
    std::vector<Diagnostic> found;
    CHECK_FALSE(parse_calibration(Source("c.yaml", text), found));
    CHECK_FALSE(found.empty());
  }
}

TEST_CASE("read_calibration throws with the place") {
  const TemporaryFile file(replaced(calibration_yaml(sample()), "ranks: 2", "ranks: -2"));
  try {
    read_calibration(file.path());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kUsage);
    CHECK(error.code() == "NQD1011");
    CHECK(std::string(error.what()) ==
          file.path() + ":9:12: curves[0].ranks must be at least 1, not -2");
  }
  CHECK_THROWS_AS(read_calibration("/nonexistent"), Error);
}

TEST_CASE("evidence given as a calibration is told what makes one of it") {
  const TemporaryFile evidence("{\n  \"schema_version\": 1,\n  \"kind\": \"bench\"\n}\n");
  try {
    read_calibration(evidence.path());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD1011");
    CHECK(std::string(error.what()) ==
          evidence.path() + ":1:1: this looks like evidence, not like a cluster file");
    CHECK(error.hint() == "`nqd calibrate " + evidence.path() +
                              " --output cluster.yaml` makes a cluster file of it");
  }
  // A flow mapping is YAML that a person may write.
  std::vector<Diagnostic> found;
  CHECK(parse_calibration(Source("c.yaml", "{version: 1, source: x, curves: []}"), found));
}

TEST_CASE("a calibration lies between preset and file, and --cluster above the file") {
  const TemporaryFile file(calibration_yaml(sample()));
  const std::string text = "model: {preset: gpt2-124m}\ncluster:\n  preset: single-h100\n";
  const LoadedConfig key = load_config_text(
      text + "  calibration: " + file.path() + "\n  memory_bandwidth_bytes_per_s: 7e9\n", "t.yaml");
  CHECK(key.diagnostics.empty());
  CHECK(key.config.cluster.gemm_flops == 1.25e11);
  CHECK(key.config.cluster.memory_bandwidth_bytes_per_s == 7e9);
  CHECK(key.config.cluster.curves.size() == 2);
  CHECK(key.config.cluster.calibration_source == sample().source);
  CHECK(key.config.cluster.memory_bytes == 80e9);

  const LoadedConfig flag =
      load_config_text(text + "  gemm_flops: 3e9\n  memory_bandwidth_bytes_per_s: 7e9\n", "t.yaml",
                       {{"cluster.memory_bandwidth_bytes_per_s=8e9"}, file.path()});
  CHECK(flag.diagnostics.empty());
  CHECK(flag.config.cluster.gemm_flops == 1.25e11);
  CHECK(flag.config.cluster.memory_bandwidth_bytes_per_s == 8e9);
  for (const ResolvedValue& value : flag.resolved) {
    if (value.path == "cluster.gemm_flops") CHECK(value.origin == "calibration " + file.path());
    if (value.path == "cluster.calibration") CHECK(value.origin == "--cluster");
  }
}

TEST_CASE("an unreadable calibration is a finding at the key or the flag") {
  const std::string text = "model: {preset: gpt2-124m}\n";
  const LoadedConfig key =
      load_config_text(text + "cluster: {calibration: /nonexistent.yaml}\n", "t.yaml");
  REQUIRE(key.diagnostics.size() == 1);
  CHECK(key.diagnostics[0].code == "NQD1011");
  CHECK(key.diagnostics[0].where.line == 2);
  const LoadedConfig flag = load_config_text(text, "t.yaml", {{}, "/nonexistent.yaml"});
  REQUIRE(flag.diagnostics.size() == 1);
  CHECK(flag.diagnostics[0].code == "NQD1011");
  CHECK(flag.diagnostics[0].where.file == "--cluster");
}

}  // namespace
}  // namespace nqd::planner
