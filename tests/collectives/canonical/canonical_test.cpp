// The canonical tree, its accumulator, and sums that do not depend on who added what.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/canonical/canonical.h"
#include "collectives/numerics.h"
#include "collectives/world.h"
#include "tests/cases/canonical_cases.h"

namespace nqd::collectives {
namespace {

using Ranges = std::vector<IndexRange>;

std::string code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return "none";
}

TEST_CASE("sums have the bits of the definition on 1 to 8 threads, however they are split") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    std::mutex mutex;
    std::vector<CanonicalReport> reports;
    run_threads(ranks, {}, [&](Communicator& world) {
      CanonicalReport report = run_canonical_cases(world, static_cast<std::uint64_t>(ranks), 2);
      const std::lock_guard lock(mutex);
      reports.push_back(std::move(report));
    });
    REQUIRE(reports.size() == static_cast<std::size_t>(ranks));
    for (const CanonicalReport& report : reports) {
      CHECK(report.sums > 600);
      CHECK(report.order_matters > 1000);
      for (const std::string& failure : report.failures) FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("the nodes that a range leaves") {
  CHECK(maximal_nodes({0, 8}, 8) == Ranges{{0, 8}});
  CHECK(maximal_nodes({4, 8}, 16) == Ranges{{4, 8}});
  CHECK(maximal_nodes({3, 9}, 16) == Ranges{{3, 4}, {4, 8}, {8, 9}});
  CHECK(maximal_nodes({1, 7}, 7) == Ranges{{1, 2}, {2, 4}, {4, 7}});
  CHECK(maximal_nodes({4, 7}, 7) == Ranges{{4, 7}});
  CHECK(maximal_nodes({4, 7}, 8) == Ranges{{4, 6}, {6, 7}});
  CHECK(maximal_nodes({5, 5}, 8).empty());
  CHECK(peak_vectors({0, 1}, 8) == 1);
  CHECK(peak_vectors({0, 2}, 8) == 1);
  CHECK(peak_vectors({8, 16}, 16) == 3);
  CHECK(peak_vectors({1, 1023}, 1024) == 18);
}

TEST_CASE("any cut of any total adds up to one node") {
  for (std::size_t total = 1; total <= 40; ++total) {
    for (std::size_t cut = 0; cut <= total; ++cut) {
      Ranges nodes = maximal_nodes({0, cut}, total);
      const Ranges right = maximal_nodes({cut, total}, total);
      nodes.insert(nodes.end(), right.begin(), right.end());
      const std::vector<Merge> order = merges(nodes, total);
      REQUIRE(order.size() + 1 == nodes.size());
      // Each addition is of two neighbours of the tree.
      for (const Merge& merge : order) {
        REQUIRE(are_siblings(nodes[merge.into], nodes[merge.from], total));
        nodes[merge.into].end = nodes[merge.from].end;
      }
      REQUIRE(nodes.front() == IndexRange{0, total});
    }
  }
}

TEST_CASE("an accumulator keeps its memory and refuses what does not fit") {
  MemoryLedger ledger;
  const std::vector<float> ones(10, 1.0f);
  const auto bytes = std::as_bytes(std::span(ones));
  {
    Accumulator sum({0, 4}, 4, 10, DType::kFloat32, &ledger);
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 4; ++i) sum.add(bytes, DType::kFloat32);
      CHECK(sum.nodes() == Ranges{{0, 4}});
      float first = 0;
      std::memcpy(&first, sum.vector(0).data(), sizeof first);
      CHECK(first == 4.0f);
      CHECK(ledger.current_total_bytes() == 2 * 40);
      CHECK(code_of([&] { sum.add(bytes, DType::kFloat32); }) == "NQD2103");
      sum.restart();
    }
    CHECK(ledger.peak_bytes(MemoryTag::kCommunication) == 2 * 40);
    CHECK(code_of([&] { sum.add(bytes.first(36), DType::kFloat32); }) == "NQD2103");
    CHECK(code_of([&] { sum.add(bytes, DType::kInt32); }) == "NQD2103");
  }
  CHECK(ledger.current_total_bytes() == 0);
  CHECK(code_of([] { Accumulator({0, 2}, 1, 1, DType::kFloat32); }) == "NQD2103");
  CHECK(code_of([] { Accumulator({0, 1}, 1, 1, DType::kBFloat16); }) == "NQD2103");
}

TEST_CASE("a layout gives every contribution to one rank") {
  CHECK(ContributionLayout({{4, 6}, {0, 4}}).total() == 6);
  CHECK_FALSE(ContributionLayout({{4, 6}, {0, 4}}).is_even());
  CHECK(ContributionLayout({{0, 4}, {4, 6}}).is_even());
  CHECK_FALSE(ContributionLayout({{0, 3}, {3, 6}}).is_even());
  CHECK_FALSE(ContributionLayout({{0, 4}, {4, 4}}).is_even());
  for (const Ranges& ranges :
       {Ranges{{0, 4}, {5, 6}}, Ranges{{0, 4}, {3, 6}}, Ranges{{1, 4}}, Ranges{{0, 0}, {0, 0}}}) {
    CHECK(code_of([&] { ContributionLayout layout(ranges); }) == "NQD2103");
  }
}

TEST_CASE("a canonical sum says what is wrong on all ranks alike") {
  run_threads(2, {}, [](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const ContributionLayout layout({{0, 1}, {1, 2}});
    Scratch scratch;
    std::vector<float> values(4, 1.0f);
    const auto bytes = std::as_writable_bytes(std::span(values));
    Accumulator mine(layout.range(rank), 2, 4, DType::kFloat32);
    const auto sum = [&](ReduceOp op, Algorithm algorithm, std::size_t out_bytes) {
      return code_of([&] {
        canonical_all_reduce(world, scratch, layout, mine, bytes.first(out_bytes), op, algorithm);
      });
    };
    CHECK(sum(ReduceOp::kSum, Algorithm::kAuto, 16) == "NQD2103");  // not complete
    mine.add(bytes, DType::kFloat32);
    CHECK(sum(ReduceOp::kMax, Algorithm::kAuto, 16) == "NQD2103");
    CHECK(sum(ReduceOp::kSum, Algorithm::kAuto, 12) == "NQD2103");
    CHECK(sum(ReduceOp::kSum, Algorithm::kLibrary, 16) == "NQD2102");
    CHECK(sum(ReduceOp::kSum, Algorithm::kAuto, 16) == "none");
    CHECK(values[3] == 2.0f);
    CHECK(code_of([&] { agree_layout(world, {rank, 3}); }) == "NQD2103");
  });
}

// The result of rank 0, whose bits all ranks must have.
std::vector<std::byte> plain_all_reduce(int ranks, Algorithm algorithm) {
  std::vector<std::vector<std::byte>> results(static_cast<std::size_t>(ranks));
  run_threads(ranks, {}, [&](Communicator& world) {
    std::vector<float> values(5000);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto hash = static_cast<std::uint32_t>((i + 1) * 2654435761u) ^
                        static_cast<std::uint32_t>((world.rank() + 1) * 40503);
      values[i] = static_cast<float>(hash % 100003) / static_cast<float>(hash % 977 + 1);
    }
    const auto bytes = std::as_writable_bytes(std::span(values));
    world.all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum, algorithm);
    results[static_cast<std::size_t>(world.rank())].assign(bytes.begin(), bytes.end());
  });
  for (const auto& result : results) CHECK(result == results.front());
  return results.front();
}

TEST_CASE("every algorithm repeats its bits, and those called canonical share them") {
  for (const int ranks : {2, 3, 4, 6, 8}) {
    const std::vector<std::byte> canonical = plain_all_reduce(ranks, Algorithm::kDirect);
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling,
          Algorithm::kHalvingDoubling, Algorithm::kPairwise, Algorithm::kDirect}) {
      CAPTURE(ranks);
      CAPTURE(name(algorithm));
      const auto result = plain_all_reduce(ranks, algorithm);
      CHECK(result == plain_all_reduce(ranks, algorithm));
      if (is_canonical(Collective::kAllReduce, algorithm, static_cast<std::size_t>(ranks),
                       DType::kFloat32)) {
        CHECK(result == canonical);
      }
      if (algorithm == Algorithm::kRing) CHECK((result == canonical) == (ranks == 2));
    }
  }
}

TEST_CASE("what a sum of one vector a rank runs is canonical") {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const std::size_t ranks : {2, 3, 4, 7, 8}) {
        for (const std::uint64_t bytes : {16u, 1u << 20}) {
          for (const bool reaches : {true, false}) {
            const auto choice = canonical_algorithm(collective, ranks, bytes, type, reaches);
            REQUIRE(choice.has_value());
            CHECK(is_executable(collective, *choice));
            CHECK(is_canonical(collective, *choice, ranks, type));
          }
        }
      }
    }
  }
  CHECK(parse_numerics("canonical") == Numerics::kCanonical);
  CHECK(parse_numerics("fast") == Numerics::kFast);
  CHECK_FALSE(parse_numerics("quick").has_value());
}

}  // namespace
}  // namespace nqd::collectives
