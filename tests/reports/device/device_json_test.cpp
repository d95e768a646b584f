// What a bench on devices writes and prints, read back by the readers of evidence and of
// nccl-tests.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "cli/bench/nccl_table.h"
#include "reports/device_json.h"
#include "reports/evidence.h"
#include "reports/nccl_tests/nccl_tests.h"

namespace nqd::reports {
namespace {

using collectives::BenchResult;
using collectives::BenchRow;
using collectives::Collective;

BenchRow row_of(bool in_place) {
  BenchRow row;
  row.collective = "all_gather";
  row.backend = row.transport = "nccl";
  row.algorithm = row.requested_algorithm = "library";
  row.in_place = in_place;
  row.dtype = "float32";
  row.op = "sum";
  row.requested_bytes = row.effective_bytes = 1 << 20;
  row.ranks = 4;
  row.samples_s = {10e-6, 10e-6, 40e-6};
  row.min_s = row.p50_s = 10e-6;
  row.p95_s = row.p99_s = row.max_s = 40e-6;
  row.repeat_p50_s = {10e-6};
  row.order = {0};
  row.algbw_gbps = (1 << 20) / 10e-6 / 1e9;
  row.busbw_gbps = row.algbw_gbps * 3 / 4;
  row.wrong = in_place ? 7 : 0;
  return row;
}

BenchResult result_of() {
  BenchResult result;
  result.options.collective = Collective::kAllGather;
  result.options.algorithms = {collectives::Algorithm::kLibrary};
  result.rows = {row_of(false), row_of(true)};
  return result;
}

DeviceEvidence evidence_of() {
  DeviceEvidence evidence;
  evidence.nccl_version = "2.28.9";
  evidence.graph = true;
  evidence.estimates_s = {12.5e-6, std::nullopt};
  collectives::DeviceRecord record;
  record.host = "node1";
  record.uuid = "GPU-0";
  record.name = "NVIDIA H200";
  record.bus_id = "0000:1b:00.0";
  record.numa_node = 1;
  record.peers = {"X", "NVL"};
  record.adapters = {{"mlx5_0", "PIX"}};
  evidence.devices = {record, record};
  evidence.devices[1].rank = 1;
  return evidence;
}

TEST_CASE("the document has NCCL's estimates and the devices, and reads back") {
  const Envelope envelope = begin_envelope("bench", {"nqd", "bench", "all_gather"});
  const std::string text = bench_json(envelope, result_of(), evidence_of());
  const std::string path = std::string(NQD_BINARY_DIR) + "/tests/reports/device/bench-device.json";
  write_file(path, text);
  CHECK(text.find("\"library_estimate_s\": 1.25e-05") != std::string::npos);
  CHECK(text.find("\"library_estimate_s\": null") != std::string::npos);
  CHECK(text.find("\"nvlinks\": null") != std::string::npos);
  CHECK(text.find("\"peers\": [\"X\", \"NVL\"]") != std::string::npos);
  const Evidence back = read_evidence(path);
  REQUIRE(back.bench.rows.size() == 2);
  CHECK(back.bench.rows[1].wrong == 7);
  CHECK(back.bench.rows[0].backend == "nccl");
  // Other documents are as they were.
  CHECK(bench_json(envelope, result_of()).find("library_estimate_s") == std::string::npos);
}

TEST_CASE("the table is one of nccl-tests") {
  const BenchResult result = result_of();
  const std::string text =
      cli::nccl_table(result.options, "2.28.9", evidence_of().devices, result.rows);
  const NcclTestsOutput output = read_nccl_tests_text(text, "table.txt");
  CHECK(output.notes.empty());
  REQUIRE(output.runs.size() == 1);
  const NcclTestsRun& run = output.runs[0];
  CHECK(run.collective == "all_gather");
  CHECK(run.complete);
  CHECK(run.out_of_bounds == 7);
  CHECK(run.devices.size() == 2);
  CHECK(run.devices[1].host == "node1");
  REQUIRE(run.rows.size() == 2);
  CHECK(run.rows[0].effective_bytes == 1 << 20);
  CHECK(!run.rows[0].in_place);
  CHECK(run.rows[1].in_place);
  // The mean, not the median.
  CHECK(run.rows[0].p50_s == doctest::Approx(20e-6));
  CHECK(run.rows[0].busbw_gbps == doctest::Approx(39.32));
  CHECK(run.rows[1].wrong == 7);
  CHECK(text.find("\n     1048576         65536     float    none      -1     20.00") !=
        std::string::npos);
}

TEST_CASE("a half that was not measured is N/A") {
  BenchResult result = result_of();
  result.rows.pop_back();
  const std::string text = cli::nccl_table(result.options, "2.28.9", {}, result.rows);
  const NcclTestsOutput output = read_nccl_tests_text(text, "table.txt");
  REQUIRE(output.runs.size() == 1);
  CHECK(output.runs[0].rows.size() == 1);
}

}  // namespace
}  // namespace nqd::reports
