#include "tests/reports/sample_records.h"

#include <cmath>

#include "base/file.h"

namespace nqd::reports::testing {
namespace {

collectives::BenchRow sample_row(const std::string& algorithm, std::uint64_t bytes, double alpha_s,
                                 double beta_s_per_byte) {
  collectives::BenchRow row;
  row.collective = "all_reduce";
  row.backend = "mpi";
  row.transport = "mpi";
  row.algorithm = algorithm;
  row.requested_algorithm = "auto";
  row.dtype = "float32";
  row.op = "sum";
  row.requested_bytes = bytes + 2;  // rounded down to whole elements
  row.effective_bytes = bytes;
  row.ranks = 2;
  const double seconds = alpha_s + beta_s_per_byte * static_cast<double>(bytes);
  for (int i = 0; i < 20; ++i) row.samples_s.push_back(seconds * (1 + 0.013 * i));
  row.min_s = row.samples_s.front();
  row.p50_s = collectives::percentile(row.samples_s, 0.50);
  row.p95_s = collectives::percentile(row.samples_s, 0.95);
  row.p99_s = collectives::percentile(row.samples_s, 0.99);
  row.max_s = row.samples_s.back();
  row.algbw_gbps = static_cast<double>(bytes) / row.p50_s / 1e9;
  row.busbw_gbps = row.algbw_gbps;
  row.bytes_sent_per_rank = algorithm == "library" ? 0 : bytes;
  row.predicted_bytes_per_rank = row.bytes_sent_per_rank;
  return row;
}

engine::AuditRow byte_row(const std::string& category, const std::string& kind, double predicted,
                          double measured) {
  return {.category = category,
          .kind = kind,
          .unit = "bytes",
          .predicted = predicted,
          .measured = measured,
          .ratio = measured / predicted,
          .exact = true,
          .ok = predicted == measured,
          .note = kind == "communicated" ? "counted in the transport's send"
                                         : "peak of tagged allocations"};
}

}  // namespace

Envelope sample_envelope(const std::string& kind) {
  Envelope envelope;
  envelope.kind = kind;
  envelope.tool = {"0.1.0", "4fa005bd1fe0e7d4c1f1f8a2f3a5b6c7d8e9f001", "Release", "gcc 12.2.0"};
  envelope.argv = {"nqd", kind, "configs/quickstart.yaml", "--set", "train.name=a \"b\" <c>"};
  envelope.config_path = "configs/quickstart.yaml";
  envelope.config_yaml = "model:\n  layers: 6\n";
  envelope.resolved = {{"parallel.engine", "ddp", "configs/quickstart.yaml:12"},
                       {"parallel.dp", "2", "--set"},
                       {"parallel.tp", "1", "default"},
                       {"parallel.pp", "1", "default"}};
  envelope.world_size_asked = 2;
  envelope.world_size_actual = 2;
  envelope.backend = "mpi";
  envelope.ranks = {
      {.rank = 0, .host = "node-a", .pid = 4711, .device = "cpu", .launcher = "openmpi"},
      {.rank = 1, .host = "node-b", .pid = 4712, .device = "cpu", .launcher = "openmpi"}};
  envelope.libraries = {{"libc", "glibc 2.36"}, {"gemm", "openblas 0.3.21 (Zen)"}};
  envelope.environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}};
  envelope.host.hostname = "node-a";
  envelope.host.kernel = "Linux 6.1.0-18-amd64";
  envelope.host.cpu_model = "AMD EPYC 7763 64-Core Processor";
  envelope.host.online_cpus = 64;
  envelope.host.usable_cpus = 2;
  envelope.host.memory_total_bytes = 270'000'001'024;
  envelope.host.memory_available_bytes = 200'000'000'000;
  envelope.host.cgroup_memory_bytes = 8'589'934'592;
  envelope.host.load_1min = 0.37;
  envelope.started_at = "2026-11-29T14:25:13Z";
  envelope.ended_at = "2026-11-29T14:26:20Z";
  return envelope;
}

collectives::BenchResult sample_bench() {
  collectives::BenchResult result;
  result.options = {.collective = collectives::Collective::kAllReduce,
                    .algorithms = {collectives::Algorithm::kRing, collectives::Algorithm::kTree,
                                   collectives::Algorithm::kLibrary},
                    .dtype = DType::kFloat32,
                    .op = collectives::ReduceOp::kSum,
                    .begin_bytes = 1024,
                    .end_bytes = 64u << 20,
                    .factor = 4,
                    .step_bytes = 0,
                    .warmup = 3,
                    .iterations = 20,
                    .check = true,
                    .in_place = false};
  for (std::uint64_t bytes = 1024; bytes <= (64u << 20); bytes *= 4) {
    result.rows.push_back(sample_row("ring", bytes, 5.5e-6, 1.1e-10));
    result.rows.push_back(sample_row("tree", bytes, 4.0e-6, 2.3e-10));
    result.rows.push_back(sample_row("library", bytes, 2.1e-6, 3.7e-10));
  }
  const auto kernel_row = [](std::string kernel, double calls, std::vector<double> samples_s) {
    return collectives::KernelRow{.kernel = std::move(kernel),
                                  .m = 64,
                                  .n = 32,
                                  .items = 1,
                                  .units = 2048,
                                  .calls = calls,
                                  .numerics = "fast",
                                  .precision = "float32",
                                  .ranks = 2,
                                  .cpus = 2,
                                  .samples_s = samples_s,
                                  .p50_s = collectives::percentile(samples_s, 0.5)};
  };
  result.kernel_rows = {kernel_row("gelu", 4, {1e-6, 3e-6, 2e-6}), kernel_row("step", 0, {1e-5})};
  result.gemm_rows = {{.m = 512,
                       .n = 384,
                       .k = 256,
                       .layout = "NT",
                       .library = "openblas",
                       .threads = 1,
                       .samples_s = {1.0e-3, 1.1e-3, 1.2e-3},
                       .p50_s = 1.1e-3,
                       .gflops = 2.0 * 512 * 384 * 256 / 1.1e-3 / 1e9},
                      {.m = 1024,
                       .n = 1024,
                       .k = 1024,
                       .layout = "NN",
                       .library = "openblas",
                       .threads = 1,
                       .samples_s = {0.021, 0.022, 0.024},
                       .p50_s = 0.022,
                       .gflops = 2.0 * 1024 * 1024 * 1024 / 0.022 / 1e9}};
  result.memory_bandwidth_bytes_per_s = 1.23456789e10;
  result.verdicts = {{.code = "oversubscribed",
                      .severity = "warning",
                      .confidence = "certain",
                      .evidence = "2 ranks share 1 usable CPU.",
                      .threshold = "at most one rank a CPU",
                      .cause = "the ranks take turns, so latencies are scheduler quanta",
                      .next_step = "run fewer ranks or give the job more cores"}};
  return result;
}

engine::TrainResult sample_train() {
  engine::TrainResult train;
  for (int i = 0; i < 300; ++i) {
    train.steps.push_back({.step = i + 1,
                           .loss = 2.1 + 3.4 * std::exp(-i / 60.0) + 0.05 * std::sin(i * 1.7),
                           .tokens = 4096,
                           .step_s = 0.081 + 0.004 * std::sin(i * 0.9) + (i == 0 ? 0.2 : 0),
                           .grad_norm = 0.8 + 2 * std::exp(-i / 25.0),
                           .lr = 1e-3 * std::min(1.0, (i + 1) / 20.0),
                           .exposed_communication_s = 0.006 + 0.001 * std::sin(i * 0.4)});
  }
  for (const int step : {0, 50, 100, 150, 200, 250, 300}) {
    train.evals.push_back(
        {.step = step, .loss = 2.25 + 3.3 * std::exp(-step / 62.0), .tokens = 16384});
  }
  train.audit = {byte_row("weights", "persistent", 43'204'608, 43'204'608),
                 byte_row("gradients", "persistent", 43'204'608, 43'204'608),
                 byte_row("moments", "persistent", 86'409'216, 86'409'216),
                 byte_row("activations", "transient", 61'341'696, 61'341'696),
                 byte_row("logits", "transient", 8'388'608, 8'388'608),
                 byte_row("communication", "transient", 25'165'824, 25'165'824),
                 byte_row("dp.all_reduce", "communicated", 12'961'382'400, 12'961'382'400),
                 {.category = "step_time",
                  .kind = "time",
                  .unit = "s",
                  .predicted = 0.0793,
                  .measured = 0.0812,
                  .ratio = 0.0812 / 0.0793,
                  .exact = false,
                  .ok = true,
                  .note = "median step"},
                 {.category = "resident_growth",
                  .kind = "witness",
                  .unit = "bytes",
                  .predicted = 267'714'560,
                  .measured = 271'233'024,
                  .ratio = 271'233'024.0 / 267'714'560.0,
                  .exact = false,
                  .ok = true,
                  .note = "resident set of the process"}};
  train.audit.push_back({.category = "equal_replicas",
                         .kind = "replicas",
                         .unit = "ranks",
                         .predicted = 2,
                         .measured = 2,
                         .exact = true,
                         .note = "final weights"});
  train.resumed_after = 4;
  train.resumed_from = "runs/q/checkpoints/step-000000000004-1f2e3d4c";
  train.checkpoints = {{200, "step-000000000200-00c0ffee", 518'455'296, 0.02, 1.5, 2.5}};
  train.roll_backs = {{220, 200, "step-000000000200-00c0ffee", 20, "the loss is not finite"}};
  train.stragglers = {{64, 1, "node-b", "backward", 0.12, 0.05, 14}};
  train.traffic = {{0, "dp", "all_reduce", 2700, 5400, 12'961'382'400},
                   {1, "control", "all_reduce", 301, 602, 6400}};
  train.audit_ok = true;
  train.tokens_per_s = 50443.3497536945813;
  train.mfu = 0.412;
  train.noise_scale = 512.25;
  train.parameters = 10'801'152;
  train.data_digest = "3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8550";
  train.weights_sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
  train.gemm_library = "openblas";
  train.gemm_core = "Zen";
  for (engine::StepRecord& step : train.steps) step.host_s = 0.002;
  train.step_graph = {.steps = 297, .reason = "a first step prepares"};
  train.uncounted_memory = {.scratch_bytes = 1 << 20,
                            .library_bytes = 32 << 20,
                            .pinned_bytes = 8 << 20,
                            .reserved_bytes = 300 << 20};
  train.attention_library = "cuDNN 9.12.0";
  train.backend = "mpi";
  train.ranks = sample_envelope("train").ranks;
  return train;
}

planner::Plan sample_plan() {
  planner::Plan plan;
  plan.config.source = "configs/quickstart.yaml";
  plan.config.data.path = "runs/q/data";
  plan.config.parallel.dp = 2;
  plan.config.train.micro_batch_size = 4;
  plan.config.train.global_batch_size = 16;
  plan.parameters = 10'801'152;
  plan.memory.stages = {{.stage = 0,
                         .categories = {{"weights", 43'204'608}, {"gradients", 43'204'608}},
                         .persistent_bytes = 86'409'216,
                         .transient_bytes = 1024.5,
                         .total_bytes = 86'410'240.5}};
  plan.memory.worst_total_bytes = 86'410'240.5;
  plan.memory.limit_bytes = 8'589'934'592;
  plan.communication = {{.group = "dp",
                         .collective = "all_reduce",
                         .algorithm = "ring",
                         .calls = 3,
                         .bytes_sent_per_rank = 43'204'608,
                         .time_s = 0.012,
                         .exposed_s = 0.002}};
  plan.pipeline = {.micro_batches = 2, .bubble_fraction = 0};
  plan.time = {.compute_s = 0.07,
               .exposed_communication_s = 0.002,
               .bubble_s = 0,
               .optimizer_s = 0.007,
               .step_s = 0.079,
               .tokens_per_s = 51848.1,
               .samples_per_s = 202.5,
               .error_bar_fraction = 0.031,
               .error_bar_source = "12 published runs"};
  plan.mfu = 0.42;
  plan.hfu = 0.42;
  plan.recommendation = "ddp: the state fits one device";
  return plan;
}

planner::Calibration sample_calibration() {
  planner::Calibration calibration;
  calibration.curves = {
      {.collective = "all_reduce",
       .algorithm = "ring",
       .ranks = 2,
       .pieces = {{1024, 65536, 6.1e-6, 1.2e-10}, {65536, 67108864, 8e-6, 1.1e-10}},
       .max_residual_fraction = 0.041,
       .inside_node = false,
       .points = {{1024, 6.2e-6}, {67108864, 7.4e-3}},
       .held_out_fraction = 0.07,
       .break_bytes = 8192}};
  calibration.crossovers = {
      {"all_reduce", 2, false, "mpi", true, {{1024, "tree"}, {65536, "ring"}}}};
  calibration.engine_rates = {{collectives::Numerics::kFast,
                               planner::Precision::kFloat32,
                               2,
                               1,
                               2,
                               1.06,
                               {{"forward_product", 2.1e-10, 1.02e-11}, {"fill", 0, 9e-11}}}};
  calibration.gemm_flops = 9.87e10;
  calibration.memory_bandwidth_bytes_per_s = 1.2e10;
  calibration.source = "runs/q/bench.json, 2026-11-29T14:00:00Z, host node-a";
  return calibration;
}

std::vector<MachineCheck> sample_checks() {
  return {{"mpi backend", "ok", "Open MPI v4.1.4", ""},
          {"/dev/shm", "warn", "64 MiB", "give the container a larger one: --shm-size=1g"}};
}

std::filesystem::path write_sample(const std::string& name, const std::string& text) {
  const std::filesystem::path folder =
      std::filesystem::path(NQD_BINARY_DIR) / "tests" / "reports" / "documents";
  std::filesystem::create_directories(folder);
  write_file(folder / name, text);
  return folder / name;
}

}  // namespace nqd::reports::testing
