// Nonlinear least squares in a box, with a loss that forgives outliers.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace nqd::planner {

// Minimises Σ wᵢ·s²·ρ((rᵢ/s)²) with ρ(z) = 2(√(1+z) − 1): quadratic for residuals below the scale
// s, linear above.
struct LeastSquares {
  std::size_t residuals = 0;
  std::vector<double> weights;  // one a residual
  double scale = 0.05;          // s
  int max_iterations = 60;
  // All residuals at a point of [0, 1]^n.
  std::function<void(std::span<const double> point, std::span<double> residuals)> evaluate;
  // ∂rᵢ/∂x_j at that point, rows of n.
  std::function<void(std::span<const double> point, std::span<const double> residuals,
                     std::span<double> jacobian)>
      differentiate;
};
struct LeastSquaresResult {
  std::vector<double> point;
  double first_cost = 0;
  double cost = 0;
  int iterations = 0;
};
// From `start` in [0, 1]^n. Each step solves (JᵀWJ + λ·diag) δ = −JᵀWr for the coordinates that do
// not push against a bound, and is kept when it lowers the cost. Ends when no step does, when the
// cost falls by less than a millionth, or after max_iterations.
LeastSquaresResult minimise(const LeastSquares& problem, std::vector<double> start);

// Solves A·x = b for a symmetric positive definite A (rows of n) by Cholesky's method; A and b are
// used up, x is in b. False when A is not positive definite.
bool solve_cholesky(std::span<double> matrix, std::span<double> b);

}  // namespace nqd::planner
