#include "engine/gemm/gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "engine/gemm/gemm_bench.h"

using nqd::engine::gemm;
using nqd::engine::Transpose;

namespace {

constexpr float kPadding = 77.0F;

// A stored matrix with two padding columns, which no product may read into a result or write.
struct Stored {
  std::int64_t rows, columns, stride;
  std::vector<float> data;
  Stored(std::int64_t row_count, std::int64_t column_count, int seed)
      : rows(row_count),
        columns(column_count),
        stride(column_count + 2),
        data(static_cast<std::size_t>(rows * stride), kPadding) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        at(i, j) = static_cast<float>((i * 7 + j * 3 + seed) % 11 - 5) / 8.0F;
      }
    }
  }
  float& at(std::int64_t i, std::int64_t j) {
    return data[static_cast<std::size_t>(i * stride + j)];
  }
};

struct Case {
  Transpose a_op, b_op;
  std::int64_t m, n, k;
  float alpha, beta;
};

void check_product(const Case& c) {
  const bool ta = c.a_op == Transpose::kYes;
  const bool tb = c.b_op == Transpose::kYes;
  Stored a(ta ? c.k : c.m, ta ? c.m : c.k, 1);
  Stored b(tb ? c.n : c.k, tb ? c.k : c.n, 2);
  Stored out(c.m, c.n, 3);
  Stored before = out;
  gemm(c.a_op, c.b_op, c.m, c.n, c.k, c.alpha, a.data.data(), a.stride, b.data.data(), b.stride,
       c.beta, out.data.data(), out.stride);
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < c.k; ++l) {
        sum += static_cast<double>(ta ? a.at(l, i) : a.at(i, l)) *
               static_cast<double>(tb ? b.at(j, l) : b.at(l, j));
      }
      const double expected = c.alpha * sum + c.beta * before.at(i, j);
      // Multiples of 1/64 below 2^17: every order of addition is exact in float.
      REQUIRE(static_cast<double>(out.at(i, j)) == expected);
    }
    REQUIRE(out.at(i, c.n) == kPadding);
    REQUIRE(out.at(i, c.n + 1) == kPadding);
  }
}

std::vector<float> product_of_random(std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));
  std::vector<float> c(static_cast<std::size_t>(m * n));
  gemm(Transpose::kNo, Transpose::kYes, m, n, k, 1.0F, a.data(), k, b.data(), k, 0.0F, c.data(), n);
  return c;
}

}  // namespace

TEST_CASE("gemm is exact on small fractions for every layout, odd extents and strides") {
  for (const Transpose a_op : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose b_op : {Transpose::kNo, Transpose::kYes}) {
      for (const float beta : {0.0F, 1.0F}) {
        check_product({a_op, b_op, 1, 1, 1, 1.0F, beta});
        check_product({a_op, b_op, 1, 7, 3, 1.0F, beta});
        check_product({a_op, b_op, 5, 1, 9, 2.0F, beta});
        check_product({a_op, b_op, 33, 17, 65, 0.5F, beta});
        check_product({a_op, b_op, 130, 70, 300, 1.0F, beta});
      }
    }
  }
}

TEST_CASE("gemm with beta 0 ignores what the output held, NaN included") {
  const float a = 2.0F, b = 3.0F;
  float c = std::nanf("");
  gemm(Transpose::kNo, Transpose::kNo, 1, 1, 1, 1.0F, &a, 1, &b, 1, 0.0F, &c, 1);
  CHECK(c == 6.0F);
}

TEST_CASE("gemm gives the same bits again and from two threads at once") {
  const std::vector<float> first = product_of_random(160, 96, 200);
  CHECK(product_of_random(160, 96, 200) == first);
  std::vector<int> differing(2, 0);
  const auto repeat = [&first](int& count) {
    for (int i = 0; i < 50; ++i) count += product_of_random(160, 96, 200) == first ? 0 : 1;
  };
  std::thread left(repeat, std::ref(differing[0]));
  std::thread right(repeat, std::ref(differing[1]));
  left.join();
  right.join();
  CHECK(differing[0] == 0);
  CHECK(differing[1] == 0);
}

TEST_CASE("gemm says which library answers") {
  const nqd::engine::GemmLibrary library = nqd::engine::gemm_library();
  CHECK((library.name == "openblas" || library.name == "onednn" || library.name == "eigen"));
  CHECK(library.version.find('.') != std::string::npos);
  CHECK_FALSE(library.core.empty());
}

TEST_CASE("a forced core is called out by the library that it slows") {
  const std::string name = nqd::engine::gemm_library().name;
  if (name == "eigen") {
    CHECK(nqd::engine::gemm_library().warning.empty());
    return;
  }
  const std::string variable = name == "openblas" ? "OPENBLAS_CORETYPE" : "ONEDNN_MAX_CPU_ISA";
  const std::string setting = variable + "=AVX2";
  ::unsetenv(variable.c_str());
  CHECK(nqd::engine::gemm_library().warning.find(variable) == std::string::npos);
  ::setenv(variable.c_str(), "AVX2", 1);
  const std::string warning = nqd::engine::gemm_library().warning;
  ::unsetenv(variable.c_str());
  CHECK(warning.find(setting) != std::string::npos);
}

TEST_CASE("the gemm bench times each product of a model once, with raw samples") {
  nqd::planner::ModelSpec model;
  model.layers = 1;
  model.hidden = 16;
  model.heads = 2;
  model.ffn_hidden = 64;
  model.vocab = 32;
  model.sequence = 8;
  const auto rows = nqd::engine::run_gemm_bench(model, 2, 3);
  // Five linear layers and the attention block, each in three layouts, no two alike.
  CHECK(rows.size() == 5 * 3);
  for (const auto& row : rows) {
    CHECK(row.samples_s.size() == 3);
    CHECK(row.p50_s > 0);
    CHECK(row.threads == 1);
    const double flops = 2.0 * static_cast<double>(row.m * row.n * row.k);
    CHECK(row.gflops == doctest::Approx(flops / row.p50_s * 1e-9));
  }
  CHECK(rows.front().layout == "NT");
  CHECK(rows.front().m == 16);
  CHECK(rows.front().n == 48);
  CHECK(rows.front().k == 16);
}

TEST_CASE("memory bandwidth is that of a machine") {
  const double bytes_per_s = nqd::engine::measure_copy_bandwidth();
  CHECK(bytes_per_s > 1e8);
  CHECK(bytes_per_s < 1e13);
}
