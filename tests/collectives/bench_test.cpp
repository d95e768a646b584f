#include "collectives/bench/bench.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>

#include "collectives/bench/pattern.h"
#include "collectives/cost.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

BenchOptions small_sweep() {
  BenchOptions options;
  options.begin_bytes = 4;
  options.end_bytes = 5000;
  options.factor = 7;
  options.warmup = 1;
  options.iterations = 5;
  return options;
}

BenchResult bench_on_threads(int ranks, const BenchOptions& options) {
  BenchResult result;
  run_threads(ranks, {}, [&](Communicator& world) {
    BenchResult mine = run_bench(world, options);
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

bool has(const std::vector<Verdict>& verdicts, const std::string& code) {
  return std::any_of(verdicts.begin(), verdicts.end(),
                     [&](const Verdict& verdict) { return verdict.code == code; });
}

TEST_CASE("sizes of a sweep") {
  BenchOptions options;
  options.begin_bytes = 4096;
  options.end_bytes = 64u << 20;
  options.factor = 4;
  CHECK(sweep_sizes(options) == std::vector<std::uint64_t>{4096, 16384, 65536, 262144, 1048576,
                                                           4194304, 16777216, 67108864});
  options.begin_bytes = 1000;
  options.end_bytes = 1000;
  CHECK(sweep_sizes(options) == std::vector<std::uint64_t>{1000});
  options.end_bytes = 3000;
  options.step_bytes = 900;
  CHECK(sweep_sizes(options) == std::vector<std::uint64_t>{1000, 1900, 2800});
  options.begin_bytes = 2;
  options.end_bytes = 6;
  options.step_bytes = 0;
  options.factor = 1.1;
  CHECK(sweep_sizes(options) == std::vector<std::uint64_t>{2, 3, 4, 5, 6});
  options.begin_bytes = 1;
  options.end_bytes = ~0ull;
  options.factor = 1e10;
  CHECK(sweep_sizes(options) == std::vector<std::uint64_t>{1, 10'000'000'000});
}

TEST_CASE("sweeps that are none") {
  BenchOptions options;
  options.begin_bytes = 0;
  CHECK_THROWS_AS(sweep_sizes(options), Error);
  options.begin_bytes = 10;
  options.end_bytes = 9;
  CHECK_THROWS_AS(sweep_sizes(options), Error);
  options.end_bytes = 100;
  options.factor = 1;
  CHECK_THROWS_AS(sweep_sizes(options), Error);
  options.step_bytes = 10;
  CHECK(sweep_sizes(options).size() == 10);
}

TEST_CASE("nearest-rank percentiles") {
  std::vector<double> samples(20);
  for (int i = 0; i < 20; ++i) samples[static_cast<std::size_t>(i)] = 20 - i;
  CHECK(percentile(samples, 0) == 1);
  CHECK(percentile(samples, 0.5) == 10);
  CHECK(percentile(samples, 0.95) == 19);
  CHECK(percentile(samples, 0.99) == 20);
  CHECK(percentile(samples, 1) == 20);
  CHECK(percentile({7}, 0.5) == 7);
}

TEST_CASE("patterns: inputs differ by rank and element, and one wrong element is one") {
  for (const std::size_t ranks : {2u, 5u, 64u}) {
    const Pattern pattern(DType::kFloat32, ReduceOp::kSum, ranks);
    std::vector<float> a(1000), b(1000), sum(1000);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      pattern.fill_input(std::as_writable_bytes(std::span(a)), rank, 3);
      for (std::size_t i = 0; i < 1000; ++i) sum[i] += a[i];
    }
    CHECK(pattern.count_wrong(std::as_bytes(std::span(sum)), 3) == 0);
    CHECK(pattern.count_wrong(std::as_bytes(std::span(sum)), 4) > 100);
    sum[999] += 1;
    sum[0] = 0.5f;
    CHECK(pattern.count_wrong(std::as_bytes(std::span(sum)), 3) == 2);
    pattern.fill_input(std::as_writable_bytes(std::span(a)), 0, 3);
    pattern.fill_input(std::as_writable_bytes(std::span(b)), 1, 3);
    CHECK(a != b);
    CHECK(std::count(a.begin(), a.end(), a[0]) < 900);
    CHECK(pattern.count_unlike_input(std::as_bytes(std::span(a)), 0, 3) == 0);
    CHECK(pattern.count_unlike_input(std::as_bytes(std::span(b)), 0, 3) > 0);
  }
}

TEST_CASE("a sweep on threads: verified rows, exact byte counts, consistent statistics") {
  BenchOptions options = small_sweep();
  options.algorithms = {Algorithm::kRing, Algorithm::kTree};
  const BenchResult result = bench_on_threads(3, options);
  REQUIRE(result.rows.size() == 2 * 4);  // 4, 28, 196, 1372
  for (const BenchRow& row : result.rows) {
    const Algorithm algorithm = *parse_algorithm(row.algorithm);
    const std::size_t elements = row.requested_bytes / 4;
    CHECK(row.collective == "all_reduce");
    CHECK(row.backend == "local");
    CHECK(row.transport == "threads");
    CHECK(row.effective_bytes == elements * 4);
    CHECK(row.wrong == 0);
    CHECK(row.checked);
    CHECK(row.bytes_sent_per_rank ==
          max_traffic(Collective::kAllReduce, algorithm, 3, elements, 4).bytes_sent);
    CHECK(row.predicted_bytes_per_rank == row.bytes_sent_per_rank);
    REQUIRE(row.samples_s.size() == 5);
    CHECK(row.min_s > 0);
    CHECK(row.min_s <= row.p50_s);
    CHECK(row.p95_s <= row.max_s);
    CHECK(row.busbw_gbps == doctest::Approx(row.algbw_gbps * 4 / 3).epsilon(1e-12));
  }
  CHECK_FALSE(has(result.verdicts, "wrong-result"));
  CHECK_FALSE(has(result.verdicts, "byte-count-mismatch"));
}

TEST_CASE("every collective, type and operator verifies") {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter,
        Collective::kAllToAll}) {
    for (const bool in_place : {false, true}) {
      if (in_place && collective == Collective::kAllToAll) continue;
      for (const DType type : {DType::kBFloat16, DType::kInt64, DType::kUInt8}) {
        BenchOptions options = small_sweep();
        options.collective = collective;
        options.all_algorithms = true;
        options.begin_bytes = 8;
        options.in_place = in_place;
        options.dtype = type;
        options.op = type == DType::kBFloat16 ? ReduceOp::kAvg : ReduceOp::kProd;
        options.iterations = 1;
        const BenchResult result = bench_on_threads(5, options);
        REQUIRE_FALSE(result.rows.empty());
        for (const BenchRow& row : result.rows) {
          CHECK(row.wrong == 0);
          CHECK(row.bytes_sent_per_rank == row.predicted_bytes_per_rank);
        }
      }
    }
  }
}

TEST_CASE("one rank is refused with an explanation") {
  try {
    bench_on_threads(1, small_sweep());
    FAIL("it ran");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD3005");
    CHECK(error.exit_code() == ExitCode::kNo);
    CHECK(std::string(error.what()).find("singleton") != std::string::npos);
  }
}

TEST_CASE("a size below one element, and an algorithm that does not exist, are refused once") {
  BenchOptions options = small_sweep();
  options.begin_bytes = 3;
  CHECK_THROWS_AS(bench_on_threads(2, options), Error);
  options = small_sweep();
  options.collective = Collective::kBroadcast;
  options.algorithms = {Algorithm::kRing};
  int loud = 0;
  std::mutex mutex;
  CHECK_THROWS_AS(run_threads(3, {},
                              [&](Communicator& world) {
                                try {
                                  run_bench(world, options);
                                } catch (const Error& error) {
                                  const std::lock_guard lock(mutex);
                                  loud += error.quiet() ? 0 : 1;
                                  CHECK(error.code() == "NQD2102");
                                  throw;
                                }
                              }),
                  Error);
  CHECK(loud == 1);
}

}  // namespace
}  // namespace nqd::collectives
