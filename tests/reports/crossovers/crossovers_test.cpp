#include "reports/crossovers.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nqd::reports {
namespace {

using collectives::BenchRow;

constexpr int kSamples = 20;

// `seconds` with a spread of ±10 % that is the same for every row.
BenchRow row(const std::string& algorithm, std::uint64_t bytes, double seconds) {
  BenchRow result;
  result.collective = "all_reduce";
  result.backend = "mpi";
  result.transport = "mpi";
  result.algorithm = algorithm;
  result.dtype = "float32";
  result.op = "sum";
  result.requested_bytes = result.effective_bytes = bytes;
  result.ranks = 4;
  for (int i = 0; i < kSamples; ++i) {
    result.samples_s.push_back(seconds * (0.9 + 0.2 * i / (kSamples - 1)));
  }
  result.p50_s = collectives::percentile(result.samples_s, 0.5);
  return result;
}

Evidence document(std::vector<BenchRow> rows) {
  Evidence evidence;
  evidence.path = "bench.json";
  evidence.envelope.kind = "bench";
  evidence.envelope.ranks.resize(4);
  evidence.bench.rows = std::move(rows);
  return evidence;
}

std::vector<planner::Crossovers> found(const std::vector<Evidence>& evidence,
                                       std::vector<std::string>* skipped = nullptr) {
  std::vector<std::string> reasons;
  std::vector<planner::Crossovers> crossovers =
      find_crossovers(sample_rows(evidence, reasons), reasons);
  if (skipped != nullptr) *skipped = reasons;
  return crossovers;
}

// "tree 64, ring 1024".
std::string choices(const std::vector<BenchRow>& rows) {
  const std::vector<planner::Crossovers> crossovers = found({document(rows)});
  if (crossovers.empty()) return "none";
  REQUIRE(crossovers.size() == 1);
  std::string text;
  for (const planner::CrossoverChoice& choice : crossovers[0].choices) {
    text += (text.empty() ? "" : ", ") + choice.algorithm + " " +
            std::to_string(static_cast<std::uint64_t>(choice.from_bytes));
  }
  return text;
}

}  // namespace

TEST_CASE("lines that cross: each algorithm from the first measured size at which it wins") {
  std::vector<BenchRow> rows;
  for (std::uint64_t bytes = 64; bytes <= (1 << 20); bytes *= 4) {
    const auto payload = static_cast<double>(bytes);
    rows.push_back(row("tree", bytes, 2e-6 + 8e-9 * payload));              // until 429 bytes
    rows.push_back(row("halving_doubling", bytes, 5e-6 + 1e-9 * payload));  // until 16667
    rows.push_back(row("ring", bytes, 1e-5 + 7e-10 * payload));
  }
  CHECK(choices(rows) == "tree 64, halving_doubling 1024, ring 65536");
  const std::vector<planner::Crossovers> crossovers = found({document(rows)});
  CHECK(crossovers[0].collective == "all_reduce");
  CHECK(crossovers[0].ranks == 4);
  CHECK(crossovers[0].inside_node);
  CHECK(crossovers[0].backend == "mpi");
  CHECK_FALSE(crossovers[0].registered);
}

TEST_CASE("a gain below the noise moves no choice, one above it does") {
  CHECK(choices({row("ring", 64, 1.00e-5), row("tree", 64, 1.10e-5), row("ring", 256, 2.00e-5),
                 row("tree", 256, 1.98e-5)}) == "ring 64");
  CHECK(choices({row("ring", 64, 1.00e-5), row("tree", 64, 1.10e-5), row("ring", 256, 2.00e-5),
                 row("tree", 256, 1.60e-5)}) == "ring 64, tree 256");
}

TEST_CASE("ties: the first by name, and no move away") {
  CHECK(choices({row("tree", 64, 1e-5), row("ring", 64, 1e-5), row("ring", 256, 1e-5),
                 row("tree", 256, 1e-5)}) == "ring 64");
}

TEST_CASE("algorithms that were not measured everywhere") {
  // Nothing at 64, and ring is gone at 1024.
  CHECK(choices({row("tree", 64, 1e-6), row("ring", 256, 1e-5), row("tree", 256, 2e-5),
                 row("tree", 1024, 9e-5), row("direct", 1024, 8e-5)}) == "ring 256, direct 1024");
  CHECK(choices({row("tree", 64, 1e-6), row("tree", 256, 1e-6)}) == "none");
  CHECK(choices({row("tree", 64, 1e-6), row("ring", 256, 1e-6)}) == "none");
}

TEST_CASE("a library's own collective, rooted ones and wrong rows choose nothing") {
  CHECK(choices({row("ring", 64, 2e-6), row("library", 64, 1e-6)}) == "none");
  std::vector<BenchRow> gather = {row("linear", 64, 2e-6), row("direct", 64, 1e-6)};
  for (BenchRow& one : gather) one.collective = "gather";
  CHECK(choices(gather) == "none");
  std::vector<BenchRow> wrong = {row("ring", 64, 2e-6), row("tree", 64, 1e-6)};
  wrong[1].wrong = 3;
  CHECK(choices(wrong) == "none");
}

TEST_CASE("like is compared with like") {
  std::vector<BenchRow> rows = {row("ring", 64, 2e-6), row("tree", 64, 1e-6)};
  rows[1].registered = true;
  CHECK(choices(rows) == "none");
  rows = {row("ring", 64, 2e-6), row("tree", 64, 1e-6), row("ring", 64, 1e-6),
          row("direct", 64, 2e-6)};
  rows[2].registered = rows[3].registered = true;
  const std::vector<planner::Crossovers> both = found({document(rows)});
  REQUIRE(both.size() == 2);
  CHECK_FALSE(both[0].registered);
  CHECK(both[0].choices[0].algorithm == "tree");
  CHECK(both[1].registered);
  CHECK(both[1].choices[0].algorithm == "ring");

  // Two ways that would need one row of the table.
  rows = {row("ring", 64, 2e-6), row("tree", 64, 1e-6), row("halving_doubling", 64, 1e-6),
          row("direct", 64, 2e-6)};
  rows[2].dtype = rows[3].dtype = "float64";
  std::vector<std::string> skipped;
  CHECK(found({document(rows)}, &skipped).empty());
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0].find("crossovers of all_reduce on 4 ranks were measured in two ways") == 0);
}

TEST_CASE("documents of one way add up their samples") {
  const auto slow = document({row("ring", 64, 1e-5), row("tree", 64, 2e-5)});
  const auto fast = document({row("ring", 64, 3e-5), row("tree", 64, 2e-5)});
  const std::vector<planner::Crossovers> crossovers = found({slow, fast, fast});
  REQUIRE(crossovers.size() == 1);
  CHECK(crossovers[0].choices[0].algorithm == "tree");
}

}  // namespace nqd::reports
