#include <doctest/doctest.h>

#include "base/error.h"
#include "reports/evidence.h"
#include "tests/reports/sample_records.h"

namespace nqd::reports {
namespace {

using namespace testing;

Evidence bench_evidence() {
  Evidence evidence;
  evidence.path = "runs/q/bench.json";
  evidence.envelope = sample_envelope("bench");
  evidence.bench = sample_bench();
  return evidence;
}

std::string code_of(const std::vector<Evidence>& evidence, std::string* message = nullptr) {
  try {
    calibrate(evidence);
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kUsage);
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return {};
}

}  // namespace

TEST_CASE("ranks of one host give a curve for groups inside a node") {
  Evidence evidence = bench_evidence();
  REQUIRE(evidence.envelope.ranks.size() == 2);
  evidence.envelope.ranks[1].host = evidence.envelope.ranks[0].host;
  for (const planner::CalibratedCurve& curve : calibrate({evidence}).curves) {
    CHECK(curve.inside_node);
  }
}

TEST_CASE("the payload above which a ring of Open MPI is known to move in another way") {
  const auto ring_break = [](const char* library, const char* other_host) {
    Evidence evidence = bench_evidence();
    evidence.envelope.libraries = {{"mpi", library}};
    evidence.envelope.ranks[1].host =
        other_host != nullptr ? other_host : evidence.envelope.ranks[0].host;
    for (collectives::BenchRow& row : evidence.bench.rows) row.transport = "mpi";
    for (const planner::CalibratedCurve& curve : calibrate({evidence}).curves) {
      if (curve.algorithm == "ring") return curve.break_bytes;
    }
    return -1.0;
  };
  CHECK(ring_break("Open MPI v4.1.4", nullptr) == 2 * 4040);
  CHECK(ring_break("Open MPI v4.1.4", "elsewhere") == 0);
  CHECK(ring_break("MPICH 4.0.2", nullptr) == 0);
}

TEST_CASE("one curve a collective, algorithm and number of ranks, from the p50 of each row") {
  const planner::Calibration calibration = calibrate({bench_evidence()});
  REQUIRE(calibration.curves.size() == 3);
  for (const planner::CalibratedCurve& curve : calibration.curves) {
    CAPTURE(curve.algorithm);
    CHECK(curve.collective == "all_reduce");
    CHECK(curve.ranks == 2);
    CHECK_FALSE(curve.inside_node);             // the sample's ranks are on two hosts
    CHECK(curve.max_residual_fraction < 0.01);  // the samples lie on a line
    const std::vector<collectives::BenchRow> rows = bench_evidence().bench.rows;
    for (const collectives::BenchRow& row : rows) {
      if (row.algorithm != curve.algorithm) continue;
      bool extrapolated = true;
      const double seconds =
          planner::curve_time_s(curve, static_cast<double>(row.effective_bytes), &extrapolated);
      CHECK_FALSE(extrapolated);
      CHECK(seconds == doctest::Approx(row.p50_s).epsilon(0.01));
    }
  }
  CHECK(calibration.source == "runs/q/bench.json, 2026-11-29T14:26:20Z, host node-a");
}

TEST_CASE("the GEMM rate weighs by FLOPs, the memory rate is the median") {
  const double flops = 2.0 * 512 * 384 * 256 + 2.0 * 1024 * 1024 * 1024;
  Evidence slow = bench_evidence();
  slow.bench.memory_bandwidth_bytes_per_s = 1e9;
  Evidence fast = bench_evidence();
  fast.bench.memory_bandwidth_bytes_per_s = 9e10;
  const planner::Calibration calibration = calibrate({bench_evidence(), slow, fast});
  CHECK(calibration.gemm_flops == doctest::Approx(flops / (1.1e-3 + 0.022)));
  CHECK(calibration.memory_bandwidth_bytes_per_s == 1.23456789e10);
}

TEST_CASE("compute rates alone are a calibration") {
  Evidence evidence = bench_evidence();
  evidence.bench.rows.clear();
  const planner::Calibration calibration = calibrate({evidence});
  CHECK(calibration.curves.empty());
  CHECK(calibration.gemm_flops > 0);
}

TEST_CASE("rows that failed their check are left out and named") {
  Evidence evidence = bench_evidence();
  evidence.bench.rows[0].wrong = 3;
  evidence.bench.rows[3].p50_s = 0;
  std::vector<std::string> skipped;
  const planner::Calibration calibration = calibrate({evidence}, &skipped);
  CHECK(calibration.curves.size() == 3);
  REQUIRE(skipped.size() == 2);
  CHECK(skipped[0] ==
        "runs/q/bench.json: all_reduce ring on 2 ranks, 1024 bytes: 3 wrong elements");
  CHECK(skipped[1] == "runs/q/bench.json: all_reduce ring on 2 ranks, 4096 bytes: no time");
}

TEST_CASE("nothing to fit is refused with every reason") {
  Evidence train;
  train.path = "runs/q/train.json";
  train.envelope = sample_envelope("train");
  train.train = sample_train();
  std::string message;
  CHECK(code_of({train}, &message) == "NQD2201");
  CHECK(message.find("runs/q/train.json: kind train") != std::string::npos);

  Evidence one_size = bench_evidence();
  one_size.bench.rows.resize(1);
  one_size.bench.gemm_rows.clear();
  one_size.bench.kernel_rows.clear();
  one_size.bench.memory_bandwidth_bytes_per_s = 0;
  CHECK(code_of({one_size}, &message) == "NQD2201");
  CHECK(message.find("all_reduce ring on 2 ranks") != std::string::npos);
  CHECK(code_of({}) == "NQD2201");
}

TEST_CASE("one curve through two fabrics is refused") {
  const auto refused = [](auto change) {
    Evidence other = bench_evidence();
    change(other);
    std::string message;
    CHECK(code_of({bench_evidence(), other}, &message) == "NQD2202");
    return message;
  };
  const std::string message = refused([](Evidence& e) { e.bench.rows[0].transport = "tcp"; });
  CHECK(message.find("over mpi/mpi") != std::string::npos);
  CHECK(message.find("over mpi/tcp") != std::string::npos);
  refused([](Evidence& e) { e.bench.rows[0].dtype = "bfloat16"; });
  refused([](Evidence& e) { e.bench.rows[0].in_place = true; });
  refused([](Evidence& e) { e.envelope.host.hostname = "node-c"; });
  refused([](Evidence& e) { e.bench.gemm_rows[0].threads = 2; });
  // The same way twice is more samples, not a conflict.
  CHECK(calibrate({bench_evidence(), bench_evidence()}).curves.size() == 3);
}

TEST_CASE("rates of kernels, and what they take in place") {
  Evidence evidence = bench_evidence();
  // gelu: 2 µs a call, four calls a step of 10 µs.
  const planner::Calibration one = calibrate({evidence});
  REQUIRE(one.engine_rates.size() == 1);
  CHECK(one.engine_rates[0].ranks == 2);
  CHECK(one.engine_rates[0].cpus == 2);
  CHECK(one.engine_rates[0].in_place == doctest::Approx(10.0 / 8));
  REQUIRE(one.engine_rates[0].kernels.size() == 1);
  CHECK(one.engine_rates[0].kernels[0].kernel == "gelu");
  CHECK(one.engine_rates[0].kernels[0].unit_s == doctest::Approx(2e-6 / 2048));
  // A second document of the same way adds a shape; of another, an entry.
  Evidence more = evidence;
  more.bench.kernel_rows = {evidence.bench.kernel_rows[0]};
  more.bench.kernel_rows[0].units = 2048 * 3;
  more.bench.kernel_rows[0].p50_s = 4e-6;
  const planner::KernelRate both = calibrate({evidence, more}).engine_rates[0].kernels[0];
  CHECK(both.item_s == doctest::Approx(1e-6));
  CHECK(both.unit_s == doctest::Approx(1e-6 / 2048));
  more.bench.kernel_rows[0].threads = 2;
  const planner::Calibration two = calibrate({evidence, more});
  REQUIRE(two.engine_rates.size() == 2);
  CHECK(two.engine_rates[1].in_place == 1);
  more.envelope.host.hostname = "elsewhere";
  more.bench.rows.clear();
  more.bench.gemm_rows.clear();
  CHECK(calibrate({evidence, more}).engine_rates.size() == 2);
  more.bench.kernel_rows[0].threads = 1;
  CHECK(code_of({evidence, more}) == "NQD2202");
}

}  // namespace nqd::reports
