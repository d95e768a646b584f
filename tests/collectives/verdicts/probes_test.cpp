#include <doctest/doctest.h>

#include "collectives/bench/memory_bench.h"
#include "collectives/bench/pair_matrix.h"
#include "collectives/bench/stragglers.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

std::vector<PairRow> equal_pairs(int ranks) {
  std::vector<PairRow> pairs;
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) pairs.push_back({a, b, 1e-6, 10});
  }
  return pairs;
}

std::vector<Verdict> judged(const std::vector<PairRow>& pairs, std::size_t ranks) {
  std::vector<Verdict> verdicts;
  judge_pairs(pairs, std::vector<std::string>(ranks, "h"), verdicts);
  return verdicts;
}

TEST_CASE("a slow pair is named, and a rank that is slow in all of its pairs") {
  CHECK(judged(equal_pairs(4), 4).empty());
  std::vector<PairRow> pairs = equal_pairs(4);
  pairs[1].bandwidth_gbps = 6;  // within what equal pairs differ by
  CHECK(judged(pairs, 4).empty());
  pairs[1].bandwidth_gbps = 4;
  auto verdicts = judged(pairs, 4);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].code == "slow-pair");
  CHECK(verdicts[0].evidence.starts_with("slow: pair 0-2 (h, h); 1 of 6 pairs"));
  pairs = equal_pairs(3);
  pairs[0].latency_s = 5e-6;
  verdicts = judged(pairs, 3);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].evidence.starts_with("slow: pair 0-1"));
  for (const std::size_t ranks : {3u, 4u, 6u}) {
    pairs = equal_pairs(static_cast<int>(ranks));
    for (PairRow& pair : pairs) {
      if (pair.a == 1 || pair.b == 1) pair.bandwidth_gbps = 1;
    }
    verdicts = judged(pairs, ranks);
    REQUIRE(verdicts.size() == 1);
    CHECK(verdicts[0].evidence.starts_with("slow: rank 1 on host h, in all of its pairs"));
  }
}

TEST_CASE("pairs of one host and across hosts are not compared with each other") {
  std::vector<PairRow> pairs = equal_pairs(4);
  for (PairRow& pair : pairs) {
    if (pair.a / 2 != pair.b / 2) pair.bandwidth_gbps = 1;
  }
  std::vector<Verdict> verdicts;
  judge_pairs(pairs, {"g", "g", "h", "h"}, verdicts);
  CHECK(verdicts.empty());
}

TEST_CASE("late ranks: lateness is behind the first, and one that is always last is named") {
  const std::vector<std::string> hosts = {"a", "b", "c"};
  std::vector<std::vector<double>> arrivals;
  for (int i = 0; i < 20; ++i) {
    const double t = i;
    arrivals.push_back({t, t + 1e-5, t + 3e-3});
  }
  const auto rows = straggler_rows(arrivals, hosts);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].mean_late_s == 0);
  CHECK(rows[2].mean_late_s == doctest::Approx(3e-3));
  CHECK(rows[2].p95_late_s == doctest::Approx(3e-3));
  CHECK(rows[2].last_share == doctest::Approx(1));
  std::vector<Verdict> verdicts;
  judge_stragglers(rows, 10e-3, verdicts);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].code == "slow-rank");
  CHECK(verdicts[0].evidence.starts_with("rank 2 on host c comes 3.00 ms late"));
  verdicts.clear();
  judge_stragglers(rows, 40e-3, verdicts);
  CHECK(verdicts.empty());
  for (std::size_t i = 0; i < arrivals.size(); i += 2) std::swap(arrivals[i][0], arrivals[i][2]);
  judge_stragglers(straggler_rows(arrivals, hosts), 10e-3, verdicts);
  CHECK(verdicts.empty());
}

TEST_CASE("probes on threads") {
  run_threads(3, {}, [](Communicator& world) {
    const auto pairs = run_pair_matrix(world, {4096, 4, 2});
    REQUIRE(pairs.size() == 3);
    CHECK(pairs[2].a == 1);
    CHECK(pairs[2].b == 2);
    for (const PairRow& pair : pairs) {
      CHECK(pair.latency_s > 0);
      CHECK(pair.bandwidth_gbps > 0);
    }
    const auto rows = run_stragglers(world, {1e-4, 3});
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].last_share + rows[1].last_share + rows[2].last_share == doctest::Approx(1));
    const MemoryResult memory = run_memory_bench(world, {{4096, 65536}, 2});
    REQUIRE(memory.rows.size() == 4 * 2 * 4);  // kernels, sizes, three ranks and all together
    for (const MemoryRow& row : memory.rows) CHECK(row.bandwidth_gbps > 0);
    CHECK(memory.limits.size() == 2);
  });
}

TEST_CASE("the limit of an all_reduce is the faster copy of all ranks together") {
  const auto row = [](const std::string& kernel, int rank, double p50_s) {
    MemoryRow made;
    made.kernel = kernel;
    made.rank = rank;
    made.bytes = 1'000'000;
    made.p50_s = p50_s;
    return made;
  };
  const auto limits = all_reduce_limits({row("copy", 0, 1e-5), row("copy", -1, 1e-3),
                                         row("reduce", -1, 1e-6), row("nt_copy", -1, 5e-4)},
                                        4);
  REQUIRE(limits.size() == 1);
  CHECK(limits[0].limit_s == 5e-4);
  CHECK(limits[0].limit_busbw_gbps == doctest::Approx(2.0 * 1.5));  // 1 MB / 0.5 ms x 2·3/4
}

}  // namespace
}  // namespace nqd::collectives
