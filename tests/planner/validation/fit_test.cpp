// The fitter recovers constants that made the data.
#include "planner/validation/fit.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "planner/import/published/published.h"
#include "planner/validation/constants.h"
#include "planner/validation/evaluate.h"
#include "planner/validation/levenberg_marquardt.h"

using namespace nqd::planner;

namespace {

std::vector<const Config*> configs_of(const PublishedTable& table) {
  std::vector<const Config*> configs;
  for (const PublishedRow& row : table.rows) configs.push_back(row.config.get());
  return configs;
}

// Rows of several sizes whose times are the model's own, with `constants` set.
PublishedTable synthetic(const std::string& file, std::span<const Constant> constants) {
  std::string rows;
  for (const int hidden : {1024, 2048, 4096}) {
    for (const int mbs : {1, 2, 4, 8}) {
      rows += (rows.empty() ? "" : ",") +
              std::string(R"({"framework": "Megatron-DeepSpeed", "gpu": "A100-80GB", "gpus": 8,
 "tp": 1, "gbs": 64, "seq": 1024, "step_time_s": 1, "recompute": "full", "mbs": )") +
              std::to_string(mbs) + R"(, "arch": {"layers": 24, "heads": 16, "vocab": 50304,
 "hidden": )" +
              std::to_string(hidden) + "}}";
    }
  }
  PublishedTable table = read_published_text("[" + rows + "]", file);
  for (PublishedRow& row : table.rows) {
    REQUIRE(row.skip_reason.empty());
    Config config = *row.config;
    set_constants(constants, config);
    row.measured = predict_step(config);
    REQUIRE(row.measured > 0);
  }
  return table;
}

const std::vector<std::string> kFree = {"gpus.a100-sxm-80.gemm_share",
                                        "gpus.a100-sxm-80.memory_share"};

std::vector<Constant> moved_constants(const PublishedTable& table) {
  std::vector<Constant> constants;
  for (const std::string& name : kFree) {
    constants.push_back(find_constants(name, configs_of(table)).front());
  }
  constants[0].value *= 0.8;
  constants[1].value *= 1.15;
  return constants;
}

}  // namespace

TEST_CASE("Cholesky solves, and refuses what is not positive definite") {
  std::vector<double> matrix = {4, 2, 0, 2, 5, 2, 0, 2, 5};
  std::vector<double> b = {8, 18, 19};  // of x = (1, 2, 3)
  REQUIRE(solve_cholesky(matrix, b));
  for (std::size_t i = 0; i < 3; ++i) CHECK(b[i] == doctest::Approx(i + 1.0));
  std::vector<double> singular = {1, 1, 1, 1};
  std::vector<double> any = {1, 2};
  CHECK_FALSE(solve_cholesky(singular, any));
}

TEST_CASE("least squares finds an exponential's constants despite an outlier, and keeps its box") {
  // y = a·exp(−k·t), a = 0.7, k = 0.3 · 4; one of the points is wrong.
  std::vector<double> times;
  std::vector<double> values;
  for (int i = 0; i < 20; ++i) {
    times.push_back(0.1 * i);
    values.push_back(0.7 * std::exp(-1.2 * times.back()));
  }
  values[7] *= 3;
  LeastSquares problem;
  problem.residuals = times.size();
  problem.weights.assign(times.size(), 1);
  problem.evaluate = [&](std::span<const double> x, std::span<double> r) {
    for (std::size_t i = 0; i < r.size(); ++i) {
      r[i] = x[0] * std::exp(-4 * x[1] * times[i]) - values[i];
    }
  };
  problem.differentiate = [&](std::span<const double> x, std::span<const double>,
                              std::span<double> jacobian) {
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double e = std::exp(-4 * x[1] * times[i]);
      jacobian[2 * i] = e;
      jacobian[2 * i + 1] = -4 * times[i] * x[0] * e;
    }
  };
  problem.scale = 1e-4;
  problem.max_iterations = 500;
  const LeastSquaresResult result = minimise(problem, {0.2, 0.9});
  CHECK(result.cost < result.first_cost);
  CHECK(result.point[0] == doctest::Approx(0.7).epsilon(1e-3));
  CHECK(result.point[1] == doctest::Approx(0.3).epsilon(1e-3));

  for (double& value : values) value *= 5;  // a would be 3.5, outside the box
  CHECK(minimise(problem, {0.2, 0.9}).point[0] == 1.0);
}

TEST_CASE("a fit recovers the constants that made the times") {
  PublishedTable table = synthetic("a.json", {});
  const std::vector<Constant> truth = moved_constants(table);
  table = synthetic("a.json", truth);
  FitOptions options;
  options.free = kFree;
  options.threads = 2;
  const PublishedTable* tables[] = {&table};
  const FitResult result = fit(tables, options);
  REQUIRE(result.constants.size() == 2);
  CHECK(result.cost < 1e-6 * result.first_cost);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(result.before[i] != doctest::Approx(truth[i].value).epsilon(0.05));
    CHECK(result.constants[i].value == doctest::Approx(truth[i].value).epsilon(0.01));
  }
}

TEST_CASE("suspect rows do not pull, and a table left out is predicted by the others") {
  PublishedTable good = synthetic("good.json", {});
  PublishedTable doubted = synthetic("doubted.json", {});
  for (PublishedRow& row : doubted.rows) {
    row.measured *= 2;
    row.suspect = "twice too slow";
  }
  doubted.rows.front().measured /= 2;
  doubted.rows.front().suspect.clear();
  FitOptions options;
  options.free = kFree;
  options.threads = 1;
  const PublishedTable* tables[] = {&good, &doubted};
  CHECK(fit(tables, options).cost == doctest::Approx(0).epsilon(1e-9));

  const std::vector<LeftOut> left_out = leave_one_table_out(tables, options);
  REQUIRE(left_out.size() == 2);
  CHECK(left_out[0].file == "good.json");
  CHECK(left_out[0].rows == 12);
  CHECK(left_out[1].rows == 1);
  CHECK(left_out[1].mean_abs_error < 1e-6);
}

TEST_CASE("constants are named by kind, preset and field") {
  const PublishedTable table = synthetic("a.json", {});
  const std::vector<const Config*> configs = configs_of(table);
  CHECK(find_constants("stacks.*.host_layer_s", configs).front().name() ==
        "stacks.megatron-deepspeed-2022.host_layer_s");
  const std::vector<Constant> shared =
      find_constants("stacks.megatron-2021+megatron-deepspeed-2022.host_layer_s", configs);
  REQUIRE(shared.size() == 1);
  CHECK(shared.front().applies_to(*configs.front()));
  for (const char* wrong : {"", "gpus", "gpus.h200-sxm.gemm_share", "gpus.*.speed", "x.y.z"}) {
    CHECK_THROWS_AS(find_constants(wrong, configs), nqd::Error);
  }
  for (const ConstantField& field : constant_fields()) {
    Constant constant{&field, {}, field.low};
    CHECK(constant.position() == doctest::Approx(0));
    CHECK(constant.value_at(1) == doctest::Approx(field.high));
    CHECK(constant.value_at(0) == doctest::Approx(field.low));
  }
}
