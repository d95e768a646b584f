#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "collectives/cost.h"
#include "reports/evidence.h"
#include "reports/json_field.h"
#include "reports/nccl_tests/measurements.h"
#include "reports/nccl_tests/nccl_tests.h"
#include "tests/diagnose/fixture.h"

namespace nqd::reports {
namespace {

NcclTestsOutput read_fixture(const std::string& name) {
  return read_nccl_tests_text(test::nccl_text(name), name);
}

std::string error_of(const std::string& text) {
  try {
    read_nccl_tests_text(text, "x.txt");
  } catch (const Error& error) {
    return error.code() + " " + error.what();
  }
  return "none";
}

TEST_CASE("a table of nccl-tests") {
  const NcclTestsOutput output = read_fixture("all-reduce-healthy.txt");
  REQUIRE(output.runs.size() == 1);
  const NcclTestsRun& run = output.runs.front();
  CHECK(run.collective == "all_reduce");
  CHECK(run.ranks == 16);
  CHECK(run.hosts() == 2);
  CHECK(run.complete);
  CHECK(run.average_busbw_gbps == 143.2);
  CHECK(run.out_of_bounds == 0u);
  CHECK(run.devices[9].host == "node2");
  CHECK(run.devices[9].pid == 4101);
  CHECK(run.devices[9].bus_id == "0000:23:00");
  REQUIRE(run.rows.size() == 62);
  const collectives::BenchRow& last = run.rows.back();
  CHECK(last.in_place);
  CHECK_FALSE(run.rows[60].in_place);
  CHECK(last.backend == "nccl");
  CHECK(last.algorithm == "library");
  CHECK(last.dtype == "float32");
  CHECK(last.op == "sum");
  CHECK(last.ranks == 16);
  CHECK(last.effective_bytes == 8589934592);
  CHECK(last.p50_s == doctest::Approx(0.041326));
  CHECK(last.checked);
  CHECK(last.wrong == 0);
  CHECK(last.samples_s.size() == 1);
  // busbw = algbw x factor, up to what two decimals keep.
  CHECK(last.busbw_gbps / last.algbw_gbps ==
        doctest::Approx(collectives::bus_factor(collectives::Collective::kAllReduce, 16))
            .epsilon(1e-3));
}

TEST_CASE("columns of other versions") {
  const NcclTestsRun old = read_fixture("old-table.txt").runs.front();
  CHECK(old.ranks == 8);
  CHECK(old.collective == "all_reduce");  // by busbw / algbw
  CHECK(old.rows.size() == 50);
  CHECK_FALSE(old.rows.front().checked);  // a deviation is no count
  const NcclTestsRun percentiles = read_fixture("per-iteration.txt").runs.front();
  REQUIRE(percentiles.rows.size() == 8);
  CHECK_FALSE(percentiles.rows.front().checked);  // N/A
  CHECK(percentiles.rows[4].p99_s ==
        doctest::Approx(3.1 * percentiles.rows[4].p50_s).epsilon(1e-3));
  const NcclTestsOutput gather = read_nccl_tests_text(
      "$ ./all_gather_perf -b 1M -e 1M\n"
      "     1048576         65536     float    none      -1    51.20   20.48   15.36      0      "
      "N/A "
      "    N/A     N/A    N/A\n",
      "x.txt");
  REQUIRE(gather.runs.size() == 1);
  CHECK(gather.runs.front().collective == "all_gather");
  REQUIRE(gather.runs.front().rows.size() == 1);
  CHECK(gather.runs.front().rows.front().op == "none");
}

TEST_CASE("rows among log lines, launcher marks and other text") {
  CHECK(read_fixture("mixed.txt").runs.front().rows.size() == 62);
  const NcclTestsRun marked = read_fixture("mixed-socket.txt").runs.front();
  CHECK(marked.rows.size() == 62);
  CHECK(marked.ranks == 16);
  const NcclTestsOutput torn = read_nccl_tests_text(
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
      "        1024           256     float     sum      -1    2node1:4:5 [0] NCCL INFO comm\n"
      "WARNING: 3 packets dropped\n"
      "        2048           512     float     sum      -1    29.00    0.07    0.13      0    "
      "29.00 "
      "   0.07    0.13      0\n",
      "x.txt");
  CHECK(torn.runs.front().rows.size() == 2);
  CHECK(torn.notes.size() == 2);  // the torn row, and no end
  const NcclTestsOutput cut = read_fixture("all-reduce-cut.txt");
  CHECK(cut.runs.front().rows.size() == 24);
  CHECK_FALSE(cut.runs.front().complete);
}

TEST_CASE("a damaged row is told by line and column") {
  const std::string good =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
      "        2048           512     float     sum      -1    29.00    0.07    0.13      0    "
      "29.00 "
      "   0.07    0.13      0\n";
  CHECK(error_of(good) == "none");
  std::string letter = good;
  letter.replace(letter.find("0.07"), 4, "O.07");
  CHECK(error_of("text\n" + letter).starts_with("NQD2106 x.txt:3:66: `O.07` is no number"));
  CHECK(error_of(good.substr(0, good.size() - 8) + "\n").starts_with("NQD2106 x.txt:2:"));
}

TEST_CASE("separate worlds are seen") {
  const NcclTestsRun run = read_fixture("separate.txt").runs.front();
  CHECK(run.separate_worlds);
  CHECK(run.ranks == 1);
  CHECK(run.devices.size() == 4);
}

TEST_CASE("nccl-tests JSON") {
  const std::string text = test::nccl_text("all-reduce-spread.json");
  const JsonField document = JsonField::parse(text, "x.json");
  CHECK(is_nccl_tests_json(document));
  const NcclTestsRun run = read_nccl_tests_json(document).runs.front();
  CHECK(run.collective == "all_reduce");
  CHECK(run.ranks == 16);  // two processes of eight GPUs
  CHECK(run.hosts() == 2);
  CHECK(run.complete);
  REQUIRE(run.rows.size() == 12);
  CHECK(run.rows.front().samples_s.size() == 20);  // the first was skipped
  CHECK(run.rows.front().p95_s == doctest::Approx(3 * run.rows.front().p50_s).epsilon(1e-3));
  CHECK(std::isnan(run.rows[3].busbw_gbps));
  CHECK_FALSE(run.rows[3].checked);
  CHECK_THROWS_WITH_AS(JsonField::parse(test::nccl_text("all-reduce-cut.json"), "x.json"),
                       doctest::Contains("truncated JSON"), Error);
}

TEST_CASE("nccl-tests output calibrates as evidence does") {
  for (const char* name : {"all-reduce-healthy.txt", "all-reduce-healthy.json"}) {
    const Evidence evidence = read_measurements(test::nccl_fixture(name));
    for (const collectives::BenchRow& row : evidence.bench.rows) CHECK_FALSE(row.in_place);
    const planner::Calibration calibration = calibrate({evidence});
    REQUIRE(calibration.curves.size() == 1);
    const planner::CalibratedCurve& curve = calibration.curves.front();
    CHECK(curve.collective == "all_reduce");
    CHECK(curve.algorithm == "library");
    CHECK(curve.ranks == 16);
    CHECK_FALSE(curve.inside_node);
    // The fixture is 28 us + 2(n-1)/n of the bytes at 390 GB/s.
    CHECK(1 / curve.pieces.back().beta_s_per_byte == doctest::Approx(390e9 / 1.875).epsilon(0.03));
  }
  CHECK_THROWS_WITH_AS(read_measurements(test::nccl_fixture("separate.txt")),
                       doctest::Contains("one rank"), Error);
}

}  // namespace
}  // namespace nqd::reports
