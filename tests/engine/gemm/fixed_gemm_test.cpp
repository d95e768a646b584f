#include "engine/gemm/fixed/fixed_gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/reduce_tree.h"
#include "engine/threads/worker_pool.h"
#include "tests/engine/gemm/products.h"

namespace nqd::engine {
namespace {

using test::Case;
using test::expected;
using test::make_case;
using test::Stored;

template <typename T>
T pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

std::int64_t pick_extent(std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      return pick<std::int64_t>(random, {0, 1, 2, 3});
    case 1:  // around the sides of tiles and vectors
      return pick<std::int64_t>(random, {8, 16, 32, 48, 96}) + static_cast<int>(random() % 3) - 1;
    default:
      return 1 + random() % 70;
  }
}

KSlices pick_slices(std::mt19937& random, std::int64_t k) {
  if (random() % 2 == 0) return {};
  const int total = pick(random, {2, 3, 4, 5, 6, 7, 8, 16});
  // Wider than k asks for: the last slices are shorter, or empty.
  const std::int64_t width = (k + total - 1) / total + pick<std::int64_t>(random, {0, 0, 1, 7});
  return {total, 0, total, width};
}

FixedProduct pick_product(std::mt19937& random) {
  const auto type = [&] {
    return pick(random, {DType::kFloat32, DType::kFloat32, DType::kBFloat16, DType::kFloat16});
  };
  const auto op = [&] { return random() % 2 == 0 ? Transpose::kNo : Transpose::kYes; };
  FixedProduct p;
  p.m = pick_extent(random);
  p.n = pick_extent(random);
  p.k = random() % 8 == 0 ? 380 + random() % 800 : pick_extent(random);
  p.a = {nullptr, 0, op(), type()};
  p.b = {nullptr, 0, op(), type()};
  p.c = {nullptr, 0, type()};
  p.alpha = pick(random, {1.0F, 1.0F, 0.125F, -0.3F});
  p.accumulate = random() % 2 == 0;
  p.slices = pick_slices(random, p.k);
  return p;
}

void check_against(const Stored& wanted, const FixedProduct& product, FixedGemm& gemm,
                   Stored& result) {
  FixedProduct p = product;
  p.c.data = result.data();
  gemm.run(p);
  REQUIRE(result.bytes() == wanted.bytes());
}

// Every kernel, with 1 worker and with 3, gives the bits of the definition and writes nothing else.
void check_definition(const std::vector<FixedProduct>& products, std::uint32_t seed) {
  WorkerPool pool(3);
  std::mt19937 random(seed);
  for (const FixedProduct& product : products) {
    CAPTURE(test::describe(product));
    Case c = make_case(product, random, random() % 20, random() % 9);
    const Stored wanted = expected(c);
    for (const std::string& kernel : test::kernel_names()) {
      CAPTURE(kernel);
      FixedGemm alone(nullptr, nullptr, kernel);
      FixedGemm together(nullptr, &pool, kernel);
      for (FixedGemm* gemm : {&alone, &together}) {
        Stored result = c.c;
        check_against(wanted, c.with_pointers(), *gemm, result);
      }
    }
  }
}

TEST_CASE("every element is one chain of fused multiply-adds, or the tree of its slices") {
  std::mt19937 random(1);
  std::vector<FixedProduct> products;
  for (int i = 0; i < 600; ++i) products.push_back(pick_product(random));
  check_definition(products, 2);
}

TEST_CASE("products of several blocks, and large enough for workers, keep the order") {
  constexpr Transpose kN = Transpose::kNo;
  constexpr Transpose kT = Transpose::kYes;
  std::vector<FixedProduct> products;
  const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k, Transpose a, Transpose b,
                       DType type, KSlices slices, bool accumulate) {
    products.push_back({m,
                        n,
                        k,
                        {nullptr, 0, a, type},
                        {nullptr, 0, b, type},
                        {nullptr, 0, type},
                        1.0F,
                        accumulate,
                        slices});
  };
  add(300, 130, 800, kN, kT, DType::kFloat32, {}, false);
  add(130, 200, 700, kT, kN, DType::kFloat32, {}, true);
  add(40, 1700, 400, kN, kN, DType::kFloat32, {}, false);
  add(70, 100, 2500, kN, kT, DType::kBFloat16, {}, true);
  // Slices that end inside, at and across the ends of k blocks; state for several areas of C.
  add(60, 210, 4096, kN, kN, DType::kFloat32, KSlices::whole(8, 4096), false);
  add(330, 50, 2600, kT, kN, DType::kFloat32, {8, 0, 8, 326}, true);
  add(20, 30, 6000, kN, kT, DType::kFloat16, {7, 0, 7, 1000}, false);
  check_definition(products, 3);
}

// Copies of the bits that a sub-product of `whole` writes.
std::vector<float> run_part(FixedGemm& gemm, const Case& c, std::int64_t row, std::int64_t rows,
                            std::int64_t column, std::int64_t columns) {
  FixedProduct p = c.product;
  p.m = rows;
  p.n = columns;
  p.a = {p.a.op == Transpose::kNo ? c.a.at(row, 0) : c.a.at(0, row), c.a.stride(), p.a.op};
  p.b = {p.b.op == Transpose::kNo ? c.b.at(0, column) : c.b.at(column, 0), c.b.stride(), p.b.op};
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  p.c = {out.data(), columns};
  gemm.run(p);
  return out;
}

TEST_CASE("splits of rows and of columns give the bits of the whole") {
  std::mt19937 random(4);
  FixedGemm gemm(nullptr);
  for (const auto& [a_op, b_op] :
       {std::pair{Transpose::kNo, Transpose::kYes}, std::pair{Transpose::kNo, Transpose::kNo},
        std::pair{Transpose::kYes, Transpose::kNo}}) {
    for (const KSlices slices : {KSlices{}, KSlices::whole(8, 192)}) {
      FixedProduct p{96, 144, 192, {nullptr, 0, a_op}, {nullptr, 0, b_op}, {}, 1.0F, false, slices};
      const Case c = make_case(p, random);
      const std::vector<float> whole = run_part(gemm, c, 0, p.m, 0, p.n);
      for (const std::int64_t parts : {2, 3, 4, 8}) {
        const std::int64_t rows = p.m / parts;
        const std::int64_t columns = p.n / parts;
        for (std::int64_t part = 0; part < parts; ++part) {
          const auto by_rows = run_part(gemm, c, part * rows, rows, 0, p.n);
          const auto by_columns = run_part(gemm, c, 0, p.m, part * columns, columns);
          REQUIRE(std::equal(by_rows.begin(), by_rows.end(), whole.begin() + part * rows * p.n));
          for (std::int64_t i = 0; i < p.m; ++i) {
            REQUIRE(std::equal(by_columns.begin() + i * columns,
                               by_columns.begin() + (i + 1) * columns,
                               whole.begin() + i * p.n + part * columns));
          }
        }
      }
    }
  }
}

// The slices of `total` on `ranks` ranks, each from operands that hold its own k, added as
// all_reduce adds them.
std::vector<float> run_ranks(FixedGemm& gemm, const Case& c, int ranks) {
  const FixedProduct& whole = c.product;
  const KSlices& slices = whole.slices;
  const int each = slices.total / ranks;
  const auto size = static_cast<std::size_t>(whole.m * whole.n);
  std::vector<std::vector<float>> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin = std::min(rank * each * slices.width, whole.k);
    const std::int64_t end = std::min((rank + 1) * each * slices.width, whole.k);
    FixedProduct p = whole;
    p.k = end - begin;
    p.a = {p.a.op == Transpose::kNo ? c.a.at(0, begin) : c.a.at(begin, 0), c.a.stride(), p.a.op};
    p.b = {p.b.op == Transpose::kNo ? c.b.at(begin, 0) : c.b.at(0, begin), c.b.stride(), p.b.op};
    p.slices.first = rank * each;
    p.slices.last = (rank + 1) * each;
    sums.emplace_back(size);
    p.c = {sums.back().data(), whole.n};
    gemm.run(p);
  }
  std::vector<const std::byte*> sources;
  for (const auto& sum : sums) sources.push_back(reinterpret_cast<const std::byte*>(sum.data()));
  std::vector<float> result(size);
  std::byte* const out = reinterpret_cast<std::byte*>(result.data());
  collectives::reduce_tree({&out, 1}, sources, size * sizeof(float), DType::kFloat32,
                           collectives::ReduceOp::kSum, 0);
  return result;
}

TEST_CASE("the slices of a product have the same sum on 1, 2, 4 and 8 ranks") {
  std::mt19937 random(5);
  FixedGemm gemm(nullptr);
  // 1003 columns of a vocabulary are 8 slices of 126, of which the last has 121.
  for (const auto& [k, total, width] :
       {std::tuple{384, 8, 48}, std::tuple{1536, 8, 192}, std::tuple{1003, 8, 126},
        std::tuple{4097, 8, 600}, std::tuple{96, 16, 6}, std::tuple{30, 12, 3}}) {
    for (const auto& [a_op, b_op] :
         {std::pair{Transpose::kNo, Transpose::kYes}, std::pair{Transpose::kNo, Transpose::kNo},
          std::pair{Transpose::kYes, Transpose::kNo}}) {
      CAPTURE(k);
      FixedProduct p{29, 53, k, {nullptr, 0, a_op}, {nullptr, 0, b_op}};
      p.slices = {total, 0, total, width};
      const Case c = make_case(p, random);
      const std::vector<float> whole = run_ranks(gemm, c, 1);
      // Of 12 slices, 3 ranks have a node each; 6 of them are none.
      for (const int ranks : total == 12 ? std::vector{3} : std::vector{2, 4, 8}) {
        REQUIRE(run_ranks(gemm, c, ranks) == whole);
      }
    }
  }
}

TEST_CASE("products added one after another continue one chain") {
  std::mt19937 random(6);
  FixedProduct p{64, 96, 600, {nullptr, 0, Transpose::kYes}, {}};
  Case c = make_case(p, random);
  FixedGemm gemm(nullptr);
  const std::vector<float> whole = run_part(gemm, c, 0, p.m, 0, p.n);
  std::vector<float> parts(whole.size());
  for (const auto& [begin, end] : {std::pair{0, 1}, std::pair{1, 400}, std::pair{400, 600}}) {
    FixedProduct part = p;
    part.k = end - begin;
    part.a = {c.a.at(begin, 0), c.a.stride(), Transpose::kYes};
    part.b = {c.b.at(begin, 0), c.b.stride()};
    part.c = {parts.data(), p.n};
    part.accumulate = begin > 0;
    gemm.run(part);
  }
  CHECK(parts == whole);
}

TEST_CASE("infinities and NaNs reach the elements that meet them, and no others") {
  std::mt19937 random(7);
  for (const std::string& kernel : test::kernel_names()) {
    CAPTURE(kernel);
    FixedGemm gemm(nullptr, nullptr, kernel);
    FixedProduct p{19, 37, 50, {}, {nullptr, 0, Transpose::kYes}};
    Case c = make_case(p, random);
    c.a.set(3, 7, std::numeric_limits<float>::quiet_NaN());
    c.a.set(5, 9, std::numeric_limits<float>::infinity());
    c.b.set(36, 49, -std::numeric_limits<float>::infinity());
    gemm.run(c.with_pointers());
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        const float value = c.c.get(i, j);
        REQUIRE(std::isnan(value) ==
                (i == 3 || (i == 5 && j == 36 && c.a.get(5, 49) > 0 && c.b.get(36, 9) > 0) ||
                 (i == 5 && j == 36 && c.a.get(5, 49) < 0 && c.b.get(36, 9) < 0)));
        REQUIRE((i == 3 || std::isfinite(value) == (i != 5 && j != 36)));
      }
    }
  }
}

TEST_CASE("slices that are no node of the tree, or leave out some k, are refused") {
  FixedGemm gemm(nullptr);
  float value = 0;
  FixedProduct p{1, 1, 1, {&value, 1}, {&value, 1}, {&value, 1}};
  for (const KSlices slices : {KSlices{8, 2, 6, 1}, KSlices{6, 1, 3, 1}, KSlices{8, 3, 3, 1},
                               KSlices{8, 6, 9, 1}, KSlices{8, 0, 2, 0}}) {
    p.slices = slices;
    CHECK_THROWS_AS(gemm.run(p), Error);
  }
  for (const KSlices slices : {KSlices{8, 4, 8, 1}, KSlices{6, 4, 6, 1}, KSlices{7, 6, 7, 2}}) {
    p.slices = slices;
    CHECK_NOTHROW(gemm.run(p));
  }
}

TEST_CASE("NQD_GEMM_KERNEL forces a kernel, which the record of the run names") {
  const std::string best = fixed_gemm_library().core;
  CHECK(best == fixed::best_kernels().description);
  CHECK(fixed_gemm_library().warning.empty());
  setenv("NQD_GEMM_KERNEL", "portable", 1);
  CHECK(fixed_gemm_library().core == "portable 4x16");
  CHECK((fixed_gemm_library().warning.empty() == (best == "portable 4x16")));
  setenv("NQD_GEMM_KERNEL", "sse9", 1);
  CHECK_THROWS_AS(FixedGemm(nullptr), Error);
  unsetenv("NQD_GEMM_KERNEL");
}

TEST_CASE("scratch is allocated once, counted, and constant in the shapes") {
  MemoryLedger ledger;
  FixedGemm gemm(&ledger);
  const auto bytes = static_cast<std::uint64_t>(FixedGemm::scratch_bytes(1));
  CHECK(ledger.current_bytes(MemoryTag::kWorkspace) == bytes);
  CHECK(FixedGemm::scratch_bytes(3) == 3 * FixedGemm::scratch_bytes(1));
}

TEST_CASE("a pool runs its task once a worker, as often as asked") {
  for (const int threads : {1, 2, 5}) {
    WorkerPool pool(threads);
    std::vector<int> calls(static_cast<std::size_t>(threads));
    for (int round = 0; round < 2000; ++round) {
      pool.run([&](int worker) { ++calls[static_cast<std::size_t>(worker)]; });
    }
    CHECK(std::all_of(calls.begin(), calls.end(), [](int count) { return count == 2000; }));
  }
}

}  // namespace
}  // namespace nqd::engine
