#include "planner/validation/fit.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>

#include "base/file.h"
#include "planner/validation/evaluate.h"
#include "planner/validation/levenberg_marquardt.h"
#include "planner/validation/statistics.h"

namespace nqd::planner {
namespace {

bool informs(const PublishedRow& row) {
  return row.skip_reason.empty() && row.suspect.empty() && row.not_fitted.empty() &&
         row.quantity == Quantity::kStepTime;
}

// body(i) for all i below `count`, in chunks that idle threads take.
void parallel_for(std::size_t count, unsigned threads,
                  const std::function<void(std::size_t)>& body) {
  constexpr std::size_t kChunk = 32;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t first = next.fetch_add(kChunk); first < count;
         first = next.fetch_add(kChunk)) {
      for (std::size_t i = first; i < std::min(first + kChunk, count); ++i) body(i);
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
}

class Fitter {
 public:
  Fitter(std::span<const PublishedTable* const> tables, std::vector<Constant> constants,
         const FitOptions& options)
      : options_(options),
        threads_(options.threads > 0 ? options.threads
                                     : std::max(1U, std::thread::hardware_concurrency())) {
    result_.constants = std::move(constants);
    for (const PublishedTable* table : tables) add_table(*table);
    for (const Constant& constant : result_.constants) result_.before.push_back(constant.value);
    find_pairs();
  }

  FitResult run() {
    LeastSquares problem;
    problem.residuals = rows_.size();
    problem.weights = weights_;
    problem.max_iterations = options_.max_iterations;
    problem.evaluate = [&](std::span<const double> point, std::span<double> residuals) {
      const std::vector<Constant> constants = at(point);
      parallel_for(rows_.size(), threads_,
                   [&](std::size_t i) { residuals[i] = residual(*rows_[i], constants); });
    };
    problem.differentiate = [&](std::span<const double> point, std::span<const double> residuals,
                                std::span<double> jacobian) {
      differentiate(point, residuals, jacobian);
    };
    std::vector<double> start;
    for (const Constant& constant : result_.constants) start.push_back(constant.position());
    const LeastSquaresResult least = minimise(problem, std::move(start));
    result_.constants = at(least.point);
    result_.first_cost = least.first_cost;
    result_.cost = least.cost;
    result_.iterations = least.iterations;
    return std::move(result_);
  }

 private:
  void add_table(const PublishedTable& table) {
    const auto count = std::count_if(table.rows.begin(), table.rows.end(), informs);
    for (const PublishedRow& row : table.rows) {
      if (!informs(row)) continue;
      rows_.push_back(&row);
      weights_.push_back(1.0 / static_cast<double>(count));
    }
  }

  void find_pairs() {
    for (std::size_t j = 0; j < result_.constants.size(); ++j) {
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (result_.constants[j].applies_to(*rows_[i]->config)) pairs_.emplace_back(i, j);
      }
    }
  }

  std::vector<Constant> at(std::span<const double> point) const {
    std::vector<Constant> constants = result_.constants;
    for (std::size_t j = 0; j < constants.size(); ++j) {
      constants[j].value = constants[j].value_at(point[j]);
    }
    return constants;
  }

  static double residual(const PublishedRow& row, std::span<const Constant> constants) {
    Config config = *row.config;
    set_constants(constants, config);
    const double predicted = predict_step(config);
    return predicted > 0 ? std::log(predicted / row.measured) : 0;
  }

  // Differences away from the nearer bound.
  void differentiate(std::span<const double> point, std::span<const double> residuals,
                     std::span<double> jacobian) const {
    constexpr double kStep = 1e-4;
    const std::size_t n = point.size();
    std::fill(jacobian.begin(), jacobian.end(), 0.0);
    std::vector<std::vector<Constant>> moved;
    std::vector<double> steps;
    for (std::size_t j = 0; j < n; ++j) {
      steps.push_back(point[j] > 0.5 ? -kStep : kStep);
      std::vector<double> shifted(point.begin(), point.end());
      shifted[j] += steps[j];
      moved.push_back(at(shifted));
    }
    parallel_for(pairs_.size(), threads_, [&](std::size_t k) {
      const auto [i, j] = pairs_[k];
      jacobian[i * n + j] = (residual(*rows_[i], moved[j]) - residuals[i]) / steps[j];
    });
  }

  const FitOptions& options_;
  unsigned threads_;
  std::vector<const PublishedRow*> rows_;
  std::vector<double> weights_;
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;  // row, constant that it depends on
  FitResult result_;
};

FitResult fit_constants(std::span<const PublishedTable* const> tables,
                        std::vector<Constant> constants, const FitOptions& options) {
  return Fitter(tables, std::move(constants), options).run();
}

std::vector<const Config*> configs_of(std::span<const PublishedTable* const> tables) {
  std::vector<const Config*> configs;
  for (const PublishedTable* table : tables) {
    for (const PublishedRow& row : table->rows) {
      if (informs(row)) configs.push_back(row.config.get());
    }
  }
  return configs;
}

std::vector<Constant> free_constants(std::span<const Config* const> configs,
                                     const FitOptions& options) {
  std::vector<Constant> constants;
  const auto add = [&](std::string_view pattern, bool optional) {
    for (Constant& constant : find_constants(pattern, configs, optional)) {
      constants.push_back(std::move(constant));
    }
  };
  for (const std::string& pattern : options.free) add(pattern, false);
  if (options.free.empty()) {
    for (const std::string_view pattern : fitted_constants()) add(pattern, true);
  }
  return constants;
}

bool has_step_time(const PublishedRow& row) {
  return row.skip_reason.empty() && row.suspect.empty() && row.quantity == Quantity::kStepTime;
}

// The table's step times under these constants.
LeftOut judge_with(const PublishedTable& table, std::span<const Constant> constants) {
  std::vector<double> errors;
  for (const PublishedRow& row : table.rows) {
    if (!has_step_time(row)) continue;
    Config config = *row.config;
    set_constants(constants, config);
    errors.push_back(relative_error(predict_step(config), row.measured));
  }
  const ErrorSummary summary = summarise(errors);
  return {table.file, static_cast<std::int64_t>(errors.size()), summary.mean_abs, summary.max_abs};
}

LeftOut leave_out(const PublishedTable& table, std::span<const PublishedTable* const> others,
                  const std::vector<Constant>& all, const FitOptions& options) {
  const std::vector<const Config*> configs = configs_of(others);
  std::vector<Constant> informed;
  std::vector<Constant> unknown;
  for (const Constant& constant : all) {
    const bool known = std::any_of(configs.begin(), configs.end(), [&](const Config* config) {
      return constant.applies_to(*config);
    });
    (known ? informed : unknown).push_back(constant);
  }
  std::vector<Constant> constants = fit_constants(others, informed, options).constants;
  Config defaults;
  for (Constant& constant : unknown) {
    constant.value = constant.field->of(defaults);
    constants.push_back(constant);
  }
  return judge_with(table, constants);
}

}  // namespace

FitResult fit(std::span<const PublishedTable* const> tables, const FitOptions& options) {
  FitResult result = fit_constants(tables, free_constants(configs_of(tables), options), options);
  for (const PublishedTable* table : tables) {
    if (std::none_of(table->rows.begin(), table->rows.end(), has_step_time)) continue;
    result.tables.push_back(judge_with(*table, result.constants));
  }
  return result;
}

std::vector<LeftOut> leave_one_table_out(std::span<const PublishedTable* const> tables,
                                         const FitOptions& options) {
  const std::vector<Constant> all = free_constants(configs_of(tables), options);
  std::vector<LeftOut> results;
  for (const PublishedTable* table : tables) {
    if (std::none_of(table->rows.begin(), table->rows.end(), has_step_time)) continue;
    std::vector<const PublishedTable*> others;
    std::copy_if(tables.begin(), tables.end(), std::back_inserter(others),
                 [&](const PublishedTable* other) { return other != table; });
    results.push_back(leave_out(*table, others, all, options));
  }
  return results;
}

std::string constants_digest(std::span<const PublishedTable* const> tables) {
  const std::vector<const Config*> configs = configs_of(tables);
  std::string text;
  for (const std::string_view pattern : {"gpus.*.*", "stacks.*.*", "clusters.*.*"}) {
    for (const Constant& constant : find_constants(pattern, configs)) {
      std::array<char, 32> digits{};
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), constant.value);
      text += constant.name() + "=" + std::string(digits.data(), end.ptr) + "\n";
    }
  }
  return sha256_hex(text);
}

}  // namespace nqd::planner
