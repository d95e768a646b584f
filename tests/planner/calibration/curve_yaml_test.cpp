#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "planner/calibration/calibration.h"
#include "tests/temporary_folder.h"

namespace nqd::planner {
namespace {

Calibration sample() {
  Calibration calibration;
  calibration.source = "bench.json";
  CalibratedCurve curve;
  curve.collective = "all_reduce";
  curve.algorithm = "direct";
  curve.ranks = 2;
  curve.pieces = {{4096, 1 << 20, 1e-6, 1e-10}};
  curve.max_residual_fraction = 0.5;
  curve.points = {{4096, 1.25e-6}, {65536, 1.5e-5}, {1 << 20, 8e-5}};
  curve.held_out_fraction = 0.12;
  curve.break_bytes = 8192;
  calibration.curves = {curve};
  calibration.crossovers = {
      {"all_reduce", 2, true, "mpi", false, {{4096, "direct"}, {1 << 20, "ring"}}},
      {"all_reduce", 2, true, "mpi", true, {{4096, "direct"}}}};
  return calibration;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = calibration_yaml(sample());
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The message of the first finding, after FILE:.
std::string refusal(const std::string& text) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "cluster.yaml").string();
  write_file(path, text);
  try {
    read_calibration(path);
  } catch (const Error& error) {
    CHECK(error.code() == "NQD1011");
    const std::string message = error.what();
    REQUIRE(message.starts_with(path + ":"));
    return message.substr(path.size() + 1);
  }
  return "accepted";
}

}  // namespace

TEST_CASE("points and crossovers come back as they were written") {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "cluster.yaml").string();
  write_file(path, calibration_yaml(sample()));
  const Calibration read = read_calibration(path);
  REQUIRE(read.curves.size() == 1);
  const CalibratedCurve& curve = read.curves[0];
  CHECK(curve.break_bytes == 8192);
  CHECK(curve.held_out_fraction == 0.12);
  REQUIRE(curve.points.size() == 3);
  CHECK(curve.points[1].bytes == 65536);
  CHECK(curve.points[1].seconds == 1.5e-5);
  REQUIRE(read.crossovers.size() == 2);
  CHECK(read.crossovers[0].backend == "mpi");
  CHECK_FALSE(read.crossovers[0].registered);
  CHECK(read.crossovers[1].registered);
  REQUIRE(read.crossovers[0].choices.size() == 2);
  CHECK(read.crossovers[0].choices[1].from_bytes == (1 << 20));
  CHECK(read.crossovers[0].choices[1].algorithm == "ring");
}

TEST_CASE("a file without them is what it was") {
  Calibration plain = sample();
  plain.crossovers.clear();
  plain.curves[0].points.clear();
  plain.curves[0].break_bytes = 0;
  const std::string text = calibration_yaml(plain);
  CHECK(text.find("crossovers") == std::string::npos);
  CHECK(text.find("points") == std::string::npos);
  CHECK(text.find("break_bytes") == std::string::npos);
  CHECK(refusal(text) == "accepted");
}

TEST_CASE("what is wrong is said with its line and column") {
  struct Case {
    const char* from;
    const char* to;
    const char* message;
  };
  const Case cases[] = {
      {"seconds: 1.5e-05", "seconds: 0",
       "17:9: curves[0].points[1] must have seconds above 0, and more bytes than the point before "
       "it"},
      {"bytes: 65536, seconds", "bytes: 4096, seconds",
       "17:9: curves[0].points[1] must have seconds above 0, and more bytes than the point before "
       "it"},
      {"bytes: 65536, seconds", "byte: 65536, seconds",
       "17:10: there is no key \"byte\" in a calibration's curves[0].points[1]"},
      {"algorithm: ring", "algorithm: rings",
       "28:9: crossovers[0].choices[1] has an unknown algorithm rings"},
      {"from_bytes: 1048576", "from_bytes: 4096",
       "28:9: crossovers[0].choices[1] must begin at more bytes than the choice before it"},
      {"from_bytes: 1048576", "from_bytes: -1",
       "28:22: crossovers[0].choices[1].from_bytes is negative: -1"},
      {"    registered: true", "    registered: false",
       "29:5: crossovers[1] chooses for the same calls as crossovers[0]"},
      {"    registered: false", "    registered: 1",
       "25:17: crossovers[0].registered must be true or false, not integer 1"},
      {"    backend: mpi\n    registered: true\n", "    registered: true\n",
       "29:5: crossovers[1] lacks backend"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.to);
    CHECK(refusal(changed(wrong.from, wrong.to)) == wrong.message);
  }
}

}  // namespace nqd::planner
