#include "planner/plan/communication.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/config/config.h"
#include "planner/mesh/fabric.h"
#include "planner/planner.h"
#include "planner/reference/reference_plan.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

const GroupTraffic* find(const CommunicationPlan& plan, const std::string& group,
                         const std::string& collective) {
  for (const GroupTraffic& row : plan.traffic) {
    if (row.group == group && row.collective == collective) return &row;
  }
  return nullptr;
}

GroupTraffic row_of(const Config& config, const std::string& group, const std::string& collective) {
  const CommunicationPlan plan = plan_communication(config, {});
  const GroupTraffic* row = find(plan, group, collective);
  REQUIRE(row != nullptr);
  return *row;
}

TEST_CASE("golden: a ring all_reduce of 1 GB over 8 ranks sends 1.75 GB a rank") {
  CHECK(collectives::max_traffic(Collective::kAllReduce, Algorithm::kRing, 8, 250'000'000, 4)
            .bytes_sent == 1'750'000'000);
  Config config = state_config(500e6, Engine::kDdp, 8);  // 1 GB of bfloat16 gradients
  config.train.bucket_bytes = 1'000'000'000;
  const GroupTraffic row = row_of(config, "dp", "all_reduce");
  CHECK(row.bytes_sent_per_rank == 1.75e9);
  CHECK(row.calls == 1);
  CHECK(row.algorithm == "ring");
}

TEST_CASE("golden: 7e9 fp16 gradients over 400 Gb/s") {
  const std::int64_t ranks[] = {2, 4, 8, 16};
  const double gib[] = {13.04, 19.56, 22.82, 24.45};
  const double seconds[] = {0.280, 0.420, 0.490, 0.525};
  for (std::size_t i = 0; i < 4; ++i) {
    Config config = state_config(7e9, Engine::kDdp, ranks[i]);
    config.cluster.nodes = ranks[i];
    config.cluster.gpus_per_node = 1;
    config.cluster.inter_node.bandwidth_bytes_per_s = 400e9 / 8;
    const GroupTraffic row = row_of(config, "dp", "all_reduce");
    CHECK(std::round(row.bytes_sent_per_rank / kGiB * 100) / 100 == gib[i]);
    CHECK(row.time_s == doctest::Approx(seconds[i]));
    CHECK(row.exposed_s == row.time_s);
  }
}

TEST_CASE("golden: payload factors of the engines, one micro-batch") {
  const double gradients = 2 * 8e9;  // M, which is also the bytes of the weights
  const double pass = gradients * 7 / 8;
  const auto sent = [&](Engine engine) {
    double sum = 0;
    for (const GroupTraffic& row : plan_communication(state_config(8e9, engine, 8), {}).traffic) {
      sum += row.bytes_sent_per_rank;
    }
    return sum;
  };
  CHECK(sent(Engine::kDdp) == doctest::Approx(2 * pass));
  CHECK(sent(Engine::kZero1) == doctest::Approx(2 * pass));
  CHECK(sent(Engine::kZero2) == doctest::Approx(2 * pass));
  CHECK(sent(Engine::kZero3) == doctest::Approx(3 * pass));
}

TEST_CASE("eager sharding repeats with the micro-batches, accumulation does not") {
  const double pass = 2 * 8e9 * 7 / 8;
  const auto config = [](Engine engine) {
    Config result = state_config(8e9, engine, 8);
    result.train.global_batch_size = 8 * 5;
    return result;
  };
  CHECK(row_of(config(Engine::kDdp), "dp", "all_reduce").bytes_sent_per_rank ==
        doctest::Approx(2 * pass));
  CHECK(row_of(config(Engine::kZero1), "dp", "reduce_scatter").bytes_sent_per_rank ==
        doctest::Approx(pass));
  CHECK(row_of(config(Engine::kZero2), "dp", "reduce_scatter").bytes_sent_per_rank ==
        doctest::Approx(5 * pass));
  CHECK(row_of(config(Engine::kZero2), "dp", "all_gather").bytes_sent_per_rank ==
        doctest::Approx(pass));
  CHECK(row_of(config(Engine::kZero3), "dp", "all_gather").bytes_sent_per_rank ==
        doctest::Approx(10 * pass));
  CHECK(row_of(config(Engine::kZero3), "dp", "reduce_scatter").bytes_sent_per_rank ==
        doctest::Approx(5 * pass));
}

TEST_CASE("hsdp gathers inside the node and reduces a shard across") {
  const Config config = state_config(8e9, Engine::kHsdp, 32);
  CHECK(row_of(config, "dp_shard", "all_gather").bytes_sent_per_rank ==
        doctest::Approx(2 * 2 * 8e9 * 7 / 8));
  CHECK(row_of(config, "dp_replicate", "all_reduce").bytes_sent_per_rank ==
        doctest::Approx(2 * 2 * 1e9 * 3 / 4));
}

TEST_CASE("golden: tensor parallelism sums b·s·h four times a layer") {
  Config config = gpt3_config();
  config.parallel.pp = 1;
  config.train.global_batch_size = 1;
  const double payload = 2048.0 * 12288 * 2;
  const double sums = 4 * 96 + 2;  // and once each for the embedding and the head
  const GroupTraffic plain = row_of(config, "tp", "all_reduce");
  CHECK(plain.calls == sums);
  CHECK(plain.bytes_sent_per_rank == sums * 2 * payload * 7 / 8);
  config.train.recompute = Recompute::kFull;
  CHECK(row_of(config, "tp", "all_reduce").calls == 6 * 96 + 2);

  config.train.recompute = Recompute::kNone;
  config.parallel.sequence_parallel = true;
  const GroupTraffic gather = row_of(config, "tp", "all_gather");
  const GroupTraffic scatter = row_of(config, "tp", "reduce_scatter");
  CHECK(scatter.bytes_sent_per_rank + gather.bytes_sent_per_rank - 2 * 96 * payload * 7 / 8 ==
        doctest::Approx(plain.bytes_sent_per_rank));
}

TEST_CASE("a pipeline sends b·s·h over every boundary, forward and back") {
  const Config config = gpt3_config();
  const double payload = 2048.0 * 12288 * 2;
  const GroupTraffic row = row_of(config, "pp", "send_recv");
  CHECK(row.calls == 2 * 64);
  CHECK(row.bytes_sent_per_rank == 2 * 64 * payload);
  Config two = config;
  two.parallel.pp = 2;
  CHECK(row_of(two, "pp", "send_recv").calls == 64);
  Config interleaved = config;
  interleaved.parallel.schedule = Schedule::kInterleaved;
  interleaved.parallel.vpp = 3;
  CHECK(row_of(interleaved, "pp", "send_recv").calls == 2 * 3 * 64);
  CHECK(row_of(config, "embedding", "all_reduce").bytes_sent_per_rank == 51200.0 / 8 * 12288 * 2);
  Config untied = config;
  untied.model.tied_head = false;
  CHECK(find(plan_communication(untied, {}), "embedding", "all_reduce") == nullptr);
}

TEST_CASE("the CPU engine's rows are the sums of its calls, rank by rank") {
  for (std::int64_t dp : {2, 3, 5}) {
    Config config = cpu_config(dp);
    config.numerics.mode = collectives::Numerics::kFast;
    const auto sent_by = [&config](std::int64_t rank) {
      std::uint64_t bytes = 0;
      for (const GroupTraffic& row : reference_traffic(config, rank)) {
        if (row.group == "dp") bytes += static_cast<std::uint64_t>(row.bytes_sent_per_rank);
      }
      return bytes;
    };
    CHECK(row_of(config, "dp", "all_reduce").algorithm == "direct");
    // Small buckets: every rank reads those of all others.
    const StageLayout stage = stage_layouts(config).front();
    CHECK(config.train.bucket_bytes <= 8192);
    CHECK(sent_by(0) ==
          static_cast<std::uint64_t>(4 * stage.parameters) * static_cast<std::uint64_t>(dp - 1));
    config.cluster.ranks_share_memory = false;
    std::uint64_t all = 0;
    std::uint64_t most = 0;
    for (std::int64_t rank = 0; rank < dp; ++rank) {
      const std::uint64_t sent = sent_by(rank);
      all += sent;
      most = std::max(most, sent);
    }
    // A ring moves every element 2(n−1) times.
    CHECK(all == static_cast<std::uint64_t>(4 * stage.parameters) *
                     static_cast<std::uint64_t>(2 * (dp - 1)));
    const GroupTraffic row = row_of(config, "dp", "all_reduce");
    CHECK(row.algorithm == "ring");
    CHECK(row.bytes_sent_per_rank == static_cast<double>(most));
    CHECK(row.calls == static_cast<double>(stage_buckets(config, stage).size()));
    CHECK(row_of(config, "control", "all_reduce").calls == 1);
  }
  CHECK(plan_communication(cpu_config(1), {}).traffic.empty());
}

TEST_CASE("an unknown link leaves the time unknown and says which") {
  const CommunicationPlan plan = plan_communication(cpu_config(2), {});
  CHECK_FALSE(plan.times_known);
  REQUIRE(plan.diagnostics.size() == 1);
  CHECK(plan.diagnostics[0].code == "NQD1306");
  CHECK(plan.diagnostics[0].path == "cluster.intra_node");
}

TEST_CASE("a calibrated curve is used, and said when it is extrapolated") {
  Config config = cpu_config(2);
  CalibratedCurve curve;
  curve.collective = "all_reduce";
  curve.algorithm = "ring";
  curve.ranks = 2;
  curve.pieces = {{4, 1e6, 1e-5, 1e-9}};
  config.cluster.curves = {curve};
  CommunicationPlan plan = plan_communication(config, {});
  CHECK(plan.times_known);
  CHECK(plan.diagnostics.empty());
  double expected = 0;
  for (const BucketRun& run : stage_buckets(config, stage_layouts(config).front())) {
    expected += 1e-5 + 4e-9 * static_cast<double>(run.count);
  }
  CHECK(find(plan, "dp", "all_reduce")->time_s == doctest::Approx(expected));

  config.cluster.curves[0].pieces[0].to_bytes = 100;
  plan = plan_communication(config, {});
  REQUIRE(plan.diagnostics.size() == 1);
  CHECK(plan.diagnostics[0].code == "NQD1305");

  config.cluster.curves[0].ranks = 4;  // another group's curve says nothing about this one
  CHECK_FALSE(plan_communication(config, {}).times_known);
}

TEST_CASE("a curve prices only groups that lie as those that were measured") {
  ClusterSpec cluster;
  cluster.gpus_per_node = 2;
  cluster.intra_node = {0, 1e9};
  cluster.inter_node = {0, 1e8};
  CalibratedCurve curve;
  curve.collective = "all_reduce";
  curve.algorithm = "ring";
  curve.ranks = 2;
  curve.pieces = {{1, 1e9, 7, 0}};
  cluster.curves = {curve};
  const Group inside{"dp", 2, 1};
  const Group across{"dp", 2, 2};
  CHECK(call_time(cluster, inside, Collective::kAllReduce, Algorithm::kRing, 1e6).seconds == 7);
  CHECK(call_time(cluster, across, Collective::kAllReduce, Algorithm::kRing, 1e6).seconds ==
        doctest::Approx(1e-2));
  cluster.curves[0].inside_node = false;
  CHECK(call_time(cluster, inside, Collective::kAllReduce, Algorithm::kRing, 1e6).seconds ==
        doctest::Approx(1e-3));
  CHECK(call_time(cluster, across, Collective::kAllReduce, Algorithm::kRing, 1e6).seconds == 7);
}

TEST_CASE("a time of exactly 0 is known") {
  Config config = cpu_config(2);
  CHECK_FALSE(row_of(config, "dp", "all_reduce").time_known);
  CalibratedCurve curve;
  curve.collective = "all_reduce";
  curve.algorithm = "ring";
  curve.ranks = 2;
  curve.pieces = {{1, 1e9, 0, 0}};
  config.cluster.curves = {curve};
  const GroupTraffic row = row_of(config, "dp", "all_reduce");
  CHECK(row.time_s == 0);
  CHECK(row.time_known);
}

TEST_CASE("a state model's buckets are two sizes at most, and cover it") {
  for (const double parameters : {1.0, 7.0, 1e6 + 3, 1e15}) {
    for (const std::int64_t bucket_bytes :
         {std::int64_t{1}, std::int64_t{6}, std::int64_t{1'000'000}}) {
      Config config = state_config(parameters, Engine::kZero1, 8);
      config.train.bucket_bytes = bucket_bytes;
      const auto runs = stage_buckets(config, stage_layouts(config).front());
      CAPTURE(parameters);
      CAPTURE(bucket_bytes);
      REQUIRE(!runs.empty());
      CHECK(runs.size() <= 2);
      auto end = static_cast<std::int64_t>(parameters);
      for (const BucketRun& run : runs) {
        CHECK(run.count > 0);
        CHECK((run.count * 2 <= bucket_bytes || run.count == 1));
        end -= run.count * run.buckets;
        CHECK(run.begin == end);
      }
      CHECK(end == 0);
      CHECK(row_of(config, "dp", "reduce_scatter").calls ==
            static_cast<double>(runs.front().buckets + (runs.size() > 1 ? runs[1].buckets : 0)));
    }
  }
}

void check_exposure(const Config& config, const MicroBatchTime& compute) {
  for (const GroupTraffic& row : plan_communication(config, compute).traffic) {
    CAPTURE(row.group);
    CAPTURE(row.collective);
    // No more hides than there is computation to hide behind.
    const double computed =
        static_cast<double>(config.micro_batches()) * (compute.forward_s + compute.backward_s);
    CHECK(row.exposed_s >= row.time_s * (1 - 1e-12) - computed);
    CHECK(row.exposed_s <= row.time_s * (1 + 1e-12));
  }
}

TEST_CASE("no row exposes more than its own time") {
  std::vector<Config> configs;
  for (Engine engine :
       {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3, Engine::kHsdp}) {
    for (std::int64_t pp : {1, 2}) {
      Config config = gpt3_config();
      config.parallel.engine = engine;
      config.parallel.pp = pp;
      config.parallel.tp = 2;
      config.parallel.dp = 64 / (2 * pp);
      configs.push_back(config);
    }
    Config state = state_config(8e9, engine, 32);
    state.cluster.intra_node = {5e-6, 300e9};
    state.cluster.inter_node = {5e-6, 25e9};
    configs.push_back(state);
  }
  for (const Config& config : configs) {
    CAPTURE(name(config.parallel.engine));
    for (double compute_s : {0.0, 1e-3, 0.1, 1.0, 3.0, 10.0, 1e3}) {
      check_exposure(config, {compute_s, 2 * compute_s});
      check_exposure(config, {compute_s, 0});
    }
  }
}

TEST_CASE("every shipped config: no row exposes more than its own time") {
  std::size_t planned = 0;
  for (const auto& file : std::filesystem::directory_iterator(NQD_SOURCE_DIR "/configs")) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path().string());
    const LoadedConfig loaded = load_config(file.path().string());
    REQUIRE(loaded.ok());
    for (const GroupTraffic& row : make_plan(loaded.config).communication) {
      CAPTURE(row.collective);
      CHECK(row.exposed_s <= row.time_s * (1 + 1e-12));
    }
    ++planned;
  }
  CHECK(planned >= 10);
}

TEST_CASE("what backward cannot hide of zero3 is the reductions' first, then the gathers'") {
  Config config = state_config(8e9, Engine::kZero3, 8);
  config.cluster.intra_node = {0, 1e9};  // one unit: 14 s a gather, 14 s a reduction
  const auto exposed = [&](const MicroBatchTime& compute) {
    const CommunicationPlan plan = plan_communication(config, compute);
    return std::pair(find(plan, "dp", "all_gather")->exposed_s,
                     find(plan, "dp", "reduce_scatter")->exposed_s);
  };
  CHECK(find(plan_communication(config, {}), "dp", "all_gather")->time_s == doctest::Approx(28));
  CHECK(exposed({0, 0}).first == doctest::Approx(28));
  CHECK(exposed({0, 0}).second == doctest::Approx(14));
  CHECK(exposed({0, 10}).first == doctest::Approx(18));
  CHECK(exposed({0, 10}).second == doctest::Approx(14));
  CHECK(exposed({0, 100}).first == doctest::Approx(14));
  CHECK(exposed({0, 100}).second == doctest::Approx(14));
}

TEST_CASE("a group inside a node uses the node's link, one across nodes all its members' network") {
  ClusterSpec cluster;
  cluster.nodes = 2;
  cluster.gpus_per_node = 8;
  cluster.intra_node = {1e-6, 450e9};
  cluster.inter_node = {5e-6, 50e9};
  CHECK(inside_node(cluster, {"tp", 8, 1}));
  CHECK_FALSE(inside_node(cluster, {"dp", 16, 1}));
  CHECK_FALSE(inside_node(cluster, {"pp", 2, 8}));
  const double bytes = 1e9;
  CHECK(call_time(cluster, {"tp", 8, 1}, Collective::kAllReduce, Algorithm::kRing, bytes).seconds ==
        doctest::Approx(14e-6 + 1.75 * bytes / 450e9));
  CHECK(
      call_time(cluster, {"dp", 16, 1}, Collective::kAllReduce, Algorithm::kRing, bytes).seconds ==
      doctest::Approx(150e-6 + 1.875 * bytes / 400e9));
  CHECK(call_time(cluster, {"dp", 2, 8}, Collective::kAllReduce, Algorithm::kRing, bytes).seconds ==
        doctest::Approx(10e-6 + bytes / 50e9));
  CHECK(call_time(cluster, {"pp", 2, 8}, Collective::kSendRecv, Algorithm::kAuto, bytes).seconds ==
        doctest::Approx(5e-6 + bytes / 50e9));
  CHECK(call_time(cluster, {"dp", 1, 1}, Collective::kAllReduce, Algorithm::kRing, bytes).seconds ==
        0);
}

TEST_CASE("communication hides behind backward as far as it is ready") {
  CHECK(exposed_seconds({{0.5, 0.5, 1, 1}, {1, 1, 1, 1}}, 10) == doctest::Approx(1));
  CHECK(exposed_seconds({{0.5, 0.5, 1, 8}, {1, 1, 1, 1}}, 10) == doctest::Approx(4));
  CHECK(exposed_seconds({{0.1, 0.1, 1, 1}, {0.2, 0.2, 1, 1}}, 10) == 0);
  CHECK(exposed_seconds({{1, 1, 1, 3}}, 0) == doctest::Approx(3));
  CHECK(exposed_seconds({}, 5) == 0);
  // A run is its calls one by one.
  for (double seconds : {0.5, 2.0, 2.5, 7.0}) {
    std::vector<CallRun> calls;
    for (int i = 0; i < 5; ++i) calls.push_back({0.2 + 0.2 * i, 0.2 + 0.2 * i, 1, seconds});
    CHECK(exposed_seconds({{0.2, 1, 5, seconds}}, 10) ==
          doctest::Approx(exposed_seconds(calls, 10)));
  }

  Config config = gpt3_config();
  config.parallel = {};
  config.parallel.dp = 64;
  const CommunicationPlan hidden = plan_communication(config, {1e3, 2e3});
  const CommunicationPlan bare = plan_communication(config, {0, 0});
  const GroupTraffic* overlapped = find(hidden, "dp", "all_reduce");
  CHECK(overlapped->exposed_s > 0);  // the last bucket is ready when backward ends
  CHECK(overlapped->exposed_s < 0.05 * overlapped->time_s);
  CHECK(find(bare, "dp", "all_reduce")->exposed_s == doctest::Approx(overlapped->time_s));
}

}  // namespace
}  // namespace nqd::planner
