#include "planner/validation/levenberg_marquardt.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace nqd::planner {
namespace {

class Minimiser {
 public:
  Minimiser(const LeastSquares& problem, std::vector<double> start)
      : problem_(problem), n_(start.size()), residuals_(problem.residuals) {
    result_.point = std::move(start);
  }

  LeastSquaresResult run() {
    problem_.evaluate(result_.point, residuals_);
    result_.cost = result_.first_cost = cost(residuals_);
    jacobian_.resize(problem_.residuals * n_);
    double damping = 1e-3;
    while (result_.iterations < problem_.max_iterations) {
      ++result_.iterations;
      build_normal_equations();
      const double before = result_.cost;
      if (!improve(damping) || before - result_.cost < 1e-6 * before) break;
    }
    return std::move(result_);
  }

 private:
  double cost(const std::vector<double>& residuals) const {
    double sum = 0;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const double z = residuals[i] / problem_.scale;
      sum += problem_.weights[i] * 2 * (std::sqrt(1 + z * z) - 1);
    }
    return sum * problem_.scale * problem_.scale;
  }

  void build_normal_equations() {
    problem_.differentiate(result_.point, residuals_, jacobian_);
    hessian_.assign(n_ * n_, 0);
    gradient_.assign(n_, 0);
    for (std::size_t i = 0; i < residuals_.size(); ++i) {
      const double z = residuals_[i] / problem_.scale;
      const double weight = problem_.weights[i] / std::sqrt(1 + z * z);  // w·ρ'
      const double* row = &jacobian_[i * n_];
      for (std::size_t a = 0; a < n_; ++a) {
        if (row[a] == 0) continue;
        gradient_[a] += weight * row[a] * residuals_[i];
        for (std::size_t b = 0; b <= a; ++b) hessian_[a * n_ + b] += weight * row[a] * row[b];
      }
    }
    free_.clear();
    for (std::size_t a = 0; a < n_; ++a) {
      const bool held = (result_.point[a] <= 0 && gradient_[a] > 0) ||
                        (result_.point[a] >= 1 && gradient_[a] < 0);
      if (!held && hessian_[a * n_ + a] > 0) free_.push_back(a);
    }
  }

  // Tries steps with growing damping until one lowers the cost.
  bool improve(double& damping) {
    constexpr int kTries = 12;
    std::vector<double> trial_residuals(residuals_.size());
    for (int i = 0; i < kTries && !free_.empty(); ++i) {
      std::vector<double> trial = result_.point;
      if (step(damping, trial)) {
        problem_.evaluate(trial, trial_residuals);
        const double trial_cost = cost(trial_residuals);
        if (trial_cost < result_.cost) {
          result_.point = std::move(trial);
          result_.cost = trial_cost;
          residuals_ = std::move(trial_residuals);
          damping = std::max(damping / 5, 1e-9);
          return true;
        }
      }
      damping *= 4;
    }
    return false;
  }

  bool step(double damping, std::vector<double>& trial) const {
    const std::size_t k = free_.size();
    std::vector<double> matrix(k * k);
    std::vector<double> delta(k);
    for (std::size_t a = 0; a < k; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        matrix[a * k + b] = matrix[b * k + a] = hessian_[free_[a] * n_ + free_[b]];
      }
      matrix[a * k + a] += damping * matrix[a * k + a] + 1e-12;
      delta[a] = -gradient_[free_[a]];
    }
    if (!solve_cholesky(matrix, delta)) return false;
    for (std::size_t a = 0; a < k; ++a) {
      trial[free_[a]] = std::clamp(trial[free_[a]] + delta[a], 0.0, 1.0);
    }
    return true;
  }

  const LeastSquares& problem_;
  std::size_t n_;
  std::vector<double> residuals_;
  LeastSquaresResult result_;
  std::vector<double> jacobian_;
  std::vector<double> hessian_;  // lower triangle
  std::vector<double> gradient_;
  std::vector<std::size_t> free_;  // coordinates that may move
};

}  // namespace

bool solve_cholesky(std::span<double> matrix, std::span<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) {
      const double factor = matrix[j * n + k];
      for (std::size_t i = j; i < n; ++i) matrix[i * n + j] -= factor * matrix[i * n + k];
    }
    if (!(matrix[j * n + j] > 0)) return false;
    const double root = std::sqrt(matrix[j * n + j]);
    for (std::size_t i = j; i < n; ++i) matrix[i * n + j] /= root;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= matrix[i * n + k] * b[k];
    b[i] /= matrix[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= matrix[k * n + i] * b[k];
    b[i] /= matrix[i * n + i];
  }
  return true;
}

LeastSquaresResult minimise(const LeastSquares& problem, std::vector<double> start) {
  return Minimiser(problem, std::move(start)).run();
}

}  // namespace nqd::planner
