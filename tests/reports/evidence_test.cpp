// Documents: what is written is read back equal, to the last bit of every number.
#include "reports/evidence.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/file.h"
#include "reports/summary.h"
#include "tests/reports/check_equal.h"
#include "tests/reports/sample_records.h"

namespace nqd::reports {
namespace {

using namespace testing;

Evidence read_back(const std::string& name, const std::string& text) {
  return read_evidence(write_sample(name, text));
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("bench evidence round-trips") {
  write_sample("bench.json", bench_json(sample_envelope("bench"), sample_bench()));
  collectives::BenchResult bench = sample_bench();
  bench.rows[1].wrong = 17;
  bench.rows[2].in_place = true;
  bench.rows[2].registered = true;
  bench.options.step_bytes = 12;
  const Evidence read = read_back("bench-odd.json", bench_json(sample_envelope("bench"), bench));
  check_equal(read.envelope, sample_envelope("bench"));
  check_equal(read.bench.options, bench.options);
  REQUIRE(read.bench.rows.size() == bench.rows.size());
  for (std::size_t i = 0; i < bench.rows.size(); ++i)
    check_equal(read.bench.rows[i], bench.rows[i]);
  REQUIRE(read.bench.kernel_rows.size() == 2);
  const collectives::KernelRow& kernel = read.bench.kernel_rows[0];
  CHECK(kernel.kernel == "gelu");
  CHECK(kernel.m == 64);
  CHECK(kernel.n == 32);
  CHECK(kernel.items == 1);
  CHECK(kernel.units == 2048);
  CHECK(kernel.calls == 4);
  CHECK(kernel.numerics == "fast");
  CHECK(kernel.precision == "float32");
  CHECK(kernel.threads == 1);
  CHECK(kernel.ranks == 2);
  CHECK(kernel.cpus == 2);
  CHECK(kernel.samples_s == bench.kernel_rows[0].samples_s);
  CHECK(kernel.p50_s == 2e-6);
  REQUIRE(read.bench.gemm_rows.size() == 2);
  CHECK(read.bench.gemm_rows[1].m == 1024);
  CHECK(read.bench.gemm_rows[0].n == 384);
  CHECK(read.bench.gemm_rows[0].k == 256);
  CHECK(read.bench.gemm_rows[0].layout == "NT");
  CHECK(read.bench.gemm_rows[0].library == "openblas");
  CHECK(read.bench.gemm_rows[0].threads == 1);
  CHECK(read.bench.gemm_rows[0].samples_s == bench.gemm_rows[0].samples_s);
  CHECK(read.bench.gemm_rows[0].p50_s == bench.gemm_rows[0].p50_s);
  CHECK(read.bench.gemm_rows[0].gflops == bench.gemm_rows[0].gflops);
  CHECK(read.bench.memory_bandwidth_bytes_per_s == bench.memory_bandwidth_bytes_per_s);
  REQUIRE(read.bench.verdicts.size() == 1);
  CHECK(read.bench.verdicts[0].code == "oversubscribed");
  CHECK(read.bench.verdicts[0].severity == "warning");
  CHECK(read.bench.verdicts[0].confidence == "certain");
  CHECK(read.bench.verdicts[0].evidence == bench.verdicts[0].evidence);
  CHECK(read.bench.verdicts[0].threshold == bench.verdicts[0].threshold);
  CHECK(read.bench.verdicts[0].cause == bench.verdicts[0].cause);
  CHECK(read.bench.verdicts[0].next_step == bench.verdicts[0].next_step);
}

TEST_CASE("train evidence round-trips") {
  const engine::TrainResult train = sample_train();
  const Evidence read =
      read_back("train.json", train_json(sample_envelope("train"), train, sample_plan()));
  check_equal(read.envelope, sample_envelope("train"));
  REQUIRE(read.train.steps.size() == train.steps.size());
  for (std::size_t i = 0; i < train.steps.size(); ++i) {
    CHECK(read.train.steps[i].step == train.steps[i].step);
    CHECK(read.train.steps[i].loss == train.steps[i].loss);
    CHECK(read.train.steps[i].tokens == train.steps[i].tokens);
    CHECK(read.train.steps[i].step_s == train.steps[i].step_s);
    CHECK(read.train.steps[i].grad_norm == train.steps[i].grad_norm);
    CHECK(read.train.steps[i].lr == train.steps[i].lr);
    CHECK(read.train.steps[i].exposed_communication_s == train.steps[i].exposed_communication_s);
  }
  REQUIRE(read.train.evals.size() == train.evals.size());
  CHECK(read.train.evals[3].step == 150);
  CHECK(read.train.evals[3].loss == train.evals[3].loss);
  CHECK(read.train.evals[3].tokens == 16384);
  REQUIRE(read.train.audit.size() == train.audit.size());
  for (std::size_t i = 0; i < train.audit.size(); ++i) {
    check_equal(read.train.audit[i], train.audit[i]);
  }
  REQUIRE(read.train.traffic.size() == 2);
  CHECK(read.train.traffic[1].rank == 1);
  CHECK(read.train.traffic[0].group == "dp");
  CHECK(read.train.traffic[0].calls == 2700);
  CHECK(read.train.traffic[0].messages == 5400);
  CHECK(read.train.traffic[0].bytes_sent == 12'961'382'400);
  CHECK(read.train.audit_ok);
  CHECK(read.train.tokens_per_s == train.tokens_per_s);
  CHECK(read.train.mfu == train.mfu);
  CHECK(read.train.noise_scale == train.noise_scale);
  CHECK(read.train.parameters == train.parameters);
  CHECK(read.data_path == "runs/q/data");
  CHECK(read.train.data_digest == train.data_digest);
  CHECK(read.train.weights_sha256 == train.weights_sha256);
  CHECK(read.train.gemm_library == train.gemm_library);
  CHECK(read.train.gemm_core == train.gemm_core);
  CHECK(read.train.steps[7].host_s == 0.002);
  REQUIRE(read.train.step_graph);
  CHECK(read.train.step_graph->steps == 297);
  CHECK(read.train.step_graph->reason == "a first step prepares");
  REQUIRE(read.train.uncounted_memory);
  CHECK(read.train.uncounted_memory->scratch_bytes == 1 << 20);
  CHECK(read.train.uncounted_memory->library_bytes == 32 << 20);
  CHECK(read.train.uncounted_memory->pinned_bytes == 8 << 20);
  CHECK(read.train.uncounted_memory->reserved_bytes == 300 << 20);
  CHECK(read.train.backend == "mpi");
  CHECK(read.train.ranks.size() == 2);
  CHECK_FALSE(read.train.fault);
}

TEST_CASE("a skipped step has no loss, is marked and counted, and reads back as such") {
  engine::TrainResult train = sample_train();
  train.steps[1].loss = std::numeric_limits<double>::quiet_NaN();
  train.steps[1].grad_norm = std::numeric_limits<double>::infinity();
  train.steps[1].skipped = true;
  train.skipped_steps = 1;
  const std::string text = train_json(sample_envelope("train"), train, sample_plan());
  CHECK(contains(text, "\"step\": 2, \"loss\": null"));
  CHECK(contains(text, "\"skipped\": true"));
  CHECK(contains(text, "\"skipped_steps\": 1"));
  const Evidence read = read_back("train-skipped.json", text);
  CHECK_FALSE(read.train.steps[0].skipped);
  CHECK(read.train.steps[1].skipped);
  CHECK(std::isnan(read.train.steps[1].loss));
  CHECK(read.train.skipped_steps == 1);
}

TEST_CASE("a fault and a failed audit round-trip, with verdicts") {
  engine::TrainResult train = sample_train();
  train.audit[0].measured = 43'204'612;
  train.audit[0].ratio = 43'204'612.0 / 43'204'608.0;
  train.audit[0].ok = false;
  // Something where nothing was planned: JSON has no infinity.
  train.audit[1].predicted = 0;
  train.audit[1].ratio = std::numeric_limits<double>::max();
  train.audit[1].ok = false;
  train.audit_ok = false;
  train.fault = {.code = "NQD4001",
                 .message = "rank 1 on node-b was lost",
                 .lost_rank = 1,
                 .lost_host = "node-b",
                 .at_step = 37,
                 .detected_s = 4.25};
  const std::string text = train_json(sample_envelope("train"), train, sample_plan());
  CHECK(contains(text, "\"ratio\": null"));
  CHECK(contains(text, "\"code\": \"audit-mismatch\""));
  CHECK(contains(text, "weights: predicted 43204608 bytes, measured 43204612 bytes"));
  CHECK(contains(text, "\"code\": \"run-fault\""));
  const Evidence read = read_back("train-fault.json", text);
  check_equal(read.train.audit[0], train.audit[0]);
  check_equal(read.train.audit[1], train.audit[1]);
  CHECK_FALSE(read.train.audit_ok);
  REQUIRE(read.train.fault);
  CHECK(read.train.fault->code == "NQD4001");
  CHECK(read.train.fault->message == train.fault->message);
  CHECK(read.train.fault->lost_rank == 1);
  CHECK(read.train.fault->lost_host == "node-b");
  CHECK(read.train.fault->at_step == 37);
  CHECK(read.train.fault->detected_s == 4.25);
}

TEST_CASE("what was not measured is null or absent, never 0") {
  collectives::BenchResult bench = sample_bench();
  bench.memory_bandwidth_bytes_per_s = 0;
  bench.rows[0].checked = false;
  std::string text = bench_json(sample_envelope("bench"), bench);
  CHECK(contains(text, "\"memory_bandwidth_bytes_per_s\": null"));
  CHECK(contains(text, "\"wrong\": null"));
  CHECK(contains(text, "\"bytes_sent_per_rank\": null"));  // the library's own collective

  engine::TrainResult train;
  planner::Plan plan = sample_plan();
  plan.mfu = 0;
  plan.time = {};
  plan.communication[0].time_known = false;
  plan.memory.limit_bytes = 0;
  plan.config.data.path.clear();
  text = train_json(sample_envelope("train"), train, plan);
  for (const char* absent :
       {"\"mfu\": null", "\"tokens_per_s\": null", "\"audit_ok\": null", "\"first_loss\": null",
        "\"step_p50_s\": null", "\"step_s\": null", "\"time_s\": null", "\"limit_bytes\": null",
        "\"weights_sha256\": null", "\"data\": {\"digest\": null, \"path\": null,"}) {
    CAPTURE(absent);
    CHECK(contains(text, absent));
  }
  CHECK_FALSE(contains(text, "\"fault\""));
  CHECK_FALSE(contains(text, "\"mfu\": 0"));
  const Evidence read = read_back("train-empty.json", text);
  CHECK(read.data_path.empty());
  CHECK(read.train.data_digest.empty());
  CHECK(read.train.mfu == 0);
  CHECK(read.train.tokens_per_s == 0);
}

TEST_CASE("a loss that is not finite is null and comes back as not a number") {
  engine::TrainResult train = sample_train();
  train.steps[5].loss = std::numeric_limits<double>::infinity();
  const Evidence read =
      read_back("train-nan.json", train_json(sample_envelope("train"), train, sample_plan()));
  CHECK(std::isnan(read.train.steps[5].loss));
  CHECK(read.train.steps[6].loss == train.steps[6].loss);
}

TEST_CASE("a document without config, backend or memory readings") {
  Envelope envelope = sample_envelope("bench");
  envelope.config_path.clear();
  envelope.config_yaml.clear();
  envelope.resolved.clear();
  envelope.backend.clear();
  envelope.host.cgroup_memory_bytes.reset();
  envelope.host.memory_total_bytes = 0;
  envelope.host.cpu_model.clear();
  envelope.ranks[0].pid = 0;
  const std::string text = bench_json(envelope, sample_bench());
  CHECK(contains(text, "\"config\": null"));
  CHECK(contains(text, "\"memory_total_bytes\": null"));
  check_equal(read_back("bench-bare.json", text).envelope, envelope);
}

TEST_CASE("the config's SHA-256 is of its canonical text") {
  const std::string text = bench_json(sample_envelope("bench"), sample_bench());
  CHECK(contains(text, sha256_hex("model:\n  layers: 6\n")));
}

TEST_CASE("calibration and doctor documents round-trip") {
  const planner::Calibration calibration = sample_calibration();
  const auto input = write_sample("input.json", "{}");
  const std::vector<CurveHoldOut> held_out = {
      {"all_reduce", "ring", 2, {{{4096, 1e-5, 1.1e-5}}, 0.1, 0.1, 4096}}};
  Evidence read =
      read_back("calibration.json", calibration_json(sample_envelope("calibration"), calibration,
                                                     {input}, {"a reason"}, &held_out));
  REQUIRE(read.calibration.curves.size() == 1);
  const planner::CalibratedCurve& curve = read.calibration.curves[0];
  CHECK(curve.collective == "all_reduce");
  CHECK(curve.algorithm == "ring");
  CHECK(curve.ranks == 2);
  REQUIRE(curve.pieces.size() == 2);
  CHECK(curve.pieces[1].from_bytes == 65536);
  CHECK(curve.pieces[1].to_bytes == 67108864);
  CHECK(curve.pieces[1].alpha_s == 8e-6);
  CHECK(curve.pieces[1].beta_s_per_byte == 1.1e-10);
  CHECK(curve.max_residual_fraction == 0.041);
  CHECK_FALSE(curve.inside_node);
  REQUIRE(curve.points.size() == 2);
  CHECK(curve.points[1].bytes == 67108864);
  CHECK(curve.points[1].seconds == 7.4e-3);
  CHECK(curve.held_out_fraction == 0.07);
  CHECK(curve.break_bytes == 8192);
  REQUIRE(read.calibration.crossovers.size() == 1);
  const planner::Crossovers& table = read.calibration.crossovers[0];
  CHECK(table.backend == "mpi");
  CHECK(table.registered);
  CHECK_FALSE(table.inside_node);
  REQUIRE(table.choices.size() == 2);
  CHECK(table.choices[1].from_bytes == 65536);
  CHECK(table.choices[1].algorithm == "ring");
  REQUIRE(read.calibration.engine_rates.size() == 1);
  const planner::EngineRates& rates = read.calibration.engine_rates[0];
  CHECK(rates.numerics == collectives::Numerics::kFast);
  CHECK(rates.precision == planner::Precision::kFloat32);
  CHECK(rates.threads == 2);
  CHECK(rates.ranks == 1);
  CHECK(rates.cpus == 2);
  CHECK(rates.in_place == 1.06);
  REQUIRE(rates.kernels.size() == 2);
  CHECK(rates.kernels[0].kernel == "forward_product");
  CHECK(rates.kernels[0].item_s == 2.1e-10);
  CHECK(rates.kernels[0].unit_s == 1.02e-11);
  CHECK(read.calibration.gemm_flops == calibration.gemm_flops);
  CHECK(read.calibration.memory_bandwidth_bytes_per_s == 1.2e10);
  CHECK(read.calibration.source == calibration.source);

  read = read_back("doctor.json", doctor_json(sample_envelope("doctor"), sample_checks()));
  REQUIRE(read.checks.size() == 2);
  CHECK(read.checks[1].name == "/dev/shm");
  CHECK(read.checks[1].status == "warn");
  CHECK(read.checks[1].detail == "64 MiB");
  CHECK(read.checks[1].advice == sample_checks()[1].advice);
}

TEST_CASE("a poor fit is a verdict") {
  planner::Calibration calibration = sample_calibration();
  const auto text = [&] {
    return calibration_json(sample_envelope("calibration"), calibration, {}, {});
  };
  CHECK_FALSE(contains(text(), "calibration-residual"));
  calibration.curves[0].max_residual_fraction = 0.151;
  CHECK(contains(text(), "calibration-residual"));
  // Points that predict held-out sizes make up for it.
  CHECK(contains(text(), "\"severity\": \"info\""));
  calibration.curves[0].held_out_fraction = 0.151;
  CHECK_FALSE(contains(text(), "\"severity\": \"info\""));
  CHECK(contains(text(), "\"severity\": \"warning\""));
}

TEST_CASE("doctor is ok with warnings, not with something missing") {
  std::vector<MachineCheck> checks = sample_checks();
  CHECK(contains(doctor_json(sample_envelope("doctor"), checks), "\"ok\": true"));
  checks[0].status = "missing";
  CHECK(contains(doctor_json(sample_envelope("doctor"), checks), "\"ok\": false"));
}

TEST_CASE("metrics lines are one line of JSON each") {
  const engine::TrainResult train = sample_train();
  CHECK(metrics_line(engine::StepRecord{.step = 3,
                                        .loss = 2.5,
                                        .tokens = 64,
                                        .step_s = 0.5,
                                        .grad_norm = 1,
                                        .lr = 0.25,
                                        .exposed_communication_s = 0}) ==
        R"({"step": 3, "loss": 2.5, "tokens": 64, "step_s": 0.5, "grad_norm": 1, "lr": 0.25, )"
        R"("exposed_communication_s": 0, "skipped": false})");
  CHECK(metrics_line(engine::EvalRecord{.step = 3, .loss = 2.5, .tokens = 64}) ==
        R"({"step": 3, "heldout_loss": 2.5, "tokens": 64})");
}

TEST_CASE("summaries") {
  const std::vector<FabricSummary> fabric = summarize(sample_bench());
  REQUIRE(fabric.size() == 3);
  CHECK(fabric[0].algorithm == "ring");
  CHECK(fabric[0].peak_bytes == (64u << 20));
  CHECK(fabric[0].smallest_bytes == 1024);
  CHECK(fabric[2].smallest_p50_s < fabric[0].smallest_p50_s);

  engine::TrainResult train = sample_train();
  train.audit[0].ok = false;
  const TrainSummary summary = summarize(train);
  CHECK(summary.steps == 300);
  CHECK(summary.tokens == 300 * 4096);
  CHECK(*summary.first_loss == train.steps.front().loss);
  CHECK(*summary.final_loss == train.steps.back().loss);
  CHECK(*summary.first_heldout_loss == train.evals.front().loss);
  CHECK(*summary.final_heldout_loss == train.evals.back().loss);
  CHECK(*summary.step_p95_s < 0.1);  // the slow first step is left out
  CHECK(summary.exact_rows == 8);
  CHECK(summary.exact_rows_ok == 7);
  CHECK_FALSE(summarize(engine::TrainResult{}).final_loss);
}

}  // namespace nqd::reports
