#include "planner/calibration/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "planner/calibration/hold_out.h"
#include "planner/calibration/interpolation.h"

namespace nqd::planner {
namespace {

constexpr int kMostPieces = 3;
// One more piece must bring the worst relative residual to this share of what it was, or the sum of
// squares to its own: a jump between two samples leaves the worst as it is, while the rest can be
// followed. A fit that is already this good is left alone.
constexpr double kWorthwhile = 0.7;
constexpr double kWorthwhileSquared = 0.4;
constexpr double kGoodEnough = 0.02;
// Breaks are tried at no more sizes than this, so that a sweep of a thousand sizes stays quick.
constexpr std::size_t kMostBreaks = 40;

// A continuous piecewise line, by its values at the knots.
struct Fit {
  std::vector<SamplePoint> knots;  // the seconds are fitted
  double squared_residuals = 0;
  double max_residual = 0;
};

// What may bind a piece between two knots: nothing, β = 0 (level), or α = 0 (a ray from the
// origin).
enum class Bound : std::uint8_t { kFree, kLevel, kRay };

using Matrix = std::array<std::array<double, kMostPieces + 1>, kMostPieces + 1>;
using Vector = std::array<double, kMostPieces + 1>;

// Solves the symmetric positive definite system of size n by elimination with pivoting; nothing
// when it is singular (a knot that no point determines).
std::optional<Vector> solve(Matrix a, Vector b, std::size_t n) {
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (std::abs(a[pivot][column]) < 1e-12) return std::nullopt;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (std::size_t k = column; k < n; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  Vector x{};
  for (std::size_t i = n; i-- > 0;) {
    double sum = b[i];
    for (std::size_t k = i + 1; k < n; ++k) sum -= a[i][k] * x[k];
    x[i] = sum / a[i][i];
  }
  return x;
}

// Under the bounds each knot value is a known multiple of one free unknown.
struct Reduction {
  std::array<std::size_t, kMostPieces + 1> owner{};
  Vector factor{};
  std::size_t unknowns = 0;
};

// A free knot's unknown is in units of the time measured there: all unknowns are near 1, however
// wide the sweep.
Reduction reduce(const std::vector<SamplePoint>& knots, const std::vector<Bound>& bounds) {
  Reduction reduction;
  reduction.factor[0] = knots[0].seconds;
  reduction.unknowns = 1;
  for (std::size_t k = 1; k < knots.size(); ++k) {
    if (bounds[k - 1] == Bound::kFree) {
      reduction.owner[k] = reduction.unknowns++;
      reduction.factor[k] = knots[k].seconds;
      continue;
    }
    const double ratio = bounds[k - 1] == Bound::kLevel ? 1 : knots[k].bytes / knots[k - 1].bytes;
    reduction.owner[k] = reduction.owner[k - 1];
    reduction.factor[k] = reduction.factor[k - 1] * ratio;
  }
  return reduction;
}

std::size_t piece_of(const std::vector<SamplePoint>& knots, double bytes) {
  std::size_t piece = 0;
  while (piece + 2 < knots.size() && bytes > knots[piece + 1].bytes) ++piece;
  return piece;
}

// Where bytes lies in piece k: 0 at its start, 1 at its end.
double share_in(const std::vector<SamplePoint>& knots, std::size_t k, double bytes) {
  return (bytes - knots[k].bytes) / (knots[k + 1].bytes - knots[k].bytes);
}

void measure(const std::vector<SamplePoint>& points, Fit& fit) {
  for (const SamplePoint& point : points) {
    const std::size_t k = piece_of(fit.knots, point.bytes);
    const double seconds = std::lerp(fit.knots[k].seconds, fit.knots[k + 1].seconds,
                                     share_in(fit.knots, k, point.bytes));
    const double residual = seconds / point.seconds - 1;
    fit.squared_residuals += residual * residual;
    fit.max_residual = std::max(fit.max_residual, std::abs(residual));
  }
}

// α ≥ 0 and β ≥ 0 in every piece, up to rounding.
bool feasible(const std::vector<SamplePoint>& knots) {
  for (std::size_t k = 0; k + 1 < knots.size(); ++k) {
    const SamplePoint& from = knots[k];
    const SamplePoint& to = knots[k + 1];
    const double least = to.seconds - 1e-9 * std::abs(to.seconds);
    if (from.seconds < 0 || to.seconds < from.seconds * (1 - 1e-9)) return false;
    if (from.seconds * to.bytes < least * from.bytes) return false;
  }
  return true;
}

std::optional<Fit> fit_bounded(const std::vector<SamplePoint>& points,
                               const std::vector<SamplePoint>& knots,
                               const std::vector<Bound>& bounds) {
  const Reduction reduction = reduce(knots, bounds);
  Matrix normal{};
  Vector right{};
  for (const SamplePoint& point : points) {
    const std::size_t k = piece_of(knots, point.bytes);
    const double share = share_in(knots, k, point.bytes);
    // Relative error: the row is divided by the measured time, and its target is 1.
    Vector row{};
    row[reduction.owner[k]] += (1 - share) * reduction.factor[k] / point.seconds;
    row[reduction.owner[k + 1]] += share * reduction.factor[k + 1] / point.seconds;
    for (std::size_t i = 0; i < reduction.unknowns; ++i) {
      right[i] += row[i];
      for (std::size_t j = 0; j < reduction.unknowns; ++j) normal[i][j] += row[i] * row[j];
    }
  }
  const std::optional<Vector> solution = solve(normal, right, reduction.unknowns);
  if (!solution) return std::nullopt;
  Fit fit{knots, 0, 0};
  for (std::size_t k = 0; k < knots.size(); ++k) {
    fit.knots[k].seconds = (*solution)[reduction.owner[k]] * reduction.factor[k];
  }
  if (!feasible(fit.knots)) return std::nullopt;
  measure(points, fit);
  return fit;
}

void keep_better(std::optional<Fit>& best, std::optional<Fit> candidate) {
  if (!candidate) return;
  if (!best || candidate->squared_residuals < best->squared_residuals) best = std::move(candidate);
}

// The constrained optimum has some set of binding constraints; with at most three pieces all of
// them can be tried, and the best feasible one is the optimum.
std::optional<Fit> fit_knots(const std::vector<SamplePoint>& points,
                             const std::vector<SamplePoint>& knots) {
  const std::size_t pieces = knots.size() - 1;
  std::size_t combinations = 1;
  for (std::size_t i = 0; i < pieces; ++i) combinations *= 3;
  std::optional<Fit> best;
  for (std::size_t code = 0; code < combinations; ++code) {
    std::vector<Bound> bounds;
    for (std::size_t i = 0, rest = code; i < pieces; ++i, rest /= 3) {
      bounds.push_back(static_cast<Bound>(rest % 3));
    }
    keep_better(best, fit_bounded(points, knots, bounds));
    // Without any binding constraint no other set can do better.
    if (code == 0 && best) break;
  }
  return best;
}

// The first of the points of each size.
std::vector<SamplePoint> distinct_sizes(const std::vector<SamplePoint>& points) {
  std::vector<SamplePoint> sizes;
  for (const SamplePoint& point : points) {
    if (sizes.empty() || point.bytes > sizes.back().bytes) sizes.push_back(point);
  }
  return sizes;
}

// Interior sizes at which a break is tried; every piece must hold a measured size between its ends,
// so that no piece merely joins two points.
std::vector<std::size_t> break_candidates(std::size_t sizes) {
  std::vector<std::size_t> candidates;
  const std::size_t interior = sizes > 4 ? sizes - 4 : 0;
  const std::size_t step = interior / kMostBreaks + 1;
  for (std::size_t i = 2; i + 2 < sizes; i += step) candidates.push_back(i);
  return candidates;
}

std::optional<Fit> fit_with(const std::vector<SamplePoint>& points,
                            const std::vector<SamplePoint>& sizes, int pieces) {
  if (pieces == 1) return fit_knots(points, {sizes.front(), sizes.back()});
  std::optional<Fit> best;
  const std::vector<std::size_t> candidates = break_candidates(sizes.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const SamplePoint& first = sizes[candidates[i]];
    if (pieces == 2) {
      keep_better(best, fit_knots(points, {sizes.front(), first, sizes.back()}));
      continue;
    }
    for (std::size_t j = i + 1; j < candidates.size(); ++j) {
      if (candidates[j] < candidates[i] + 2) continue;
      keep_better(best,
                  fit_knots(points, {sizes.front(), first, sizes[candidates[j]], sizes.back()}));
    }
  }
  return best;
}

CalibratedCurve to_curve(const Fit& fit) {
  CalibratedCurve curve;
  curve.max_residual_fraction = fit.max_residual;
  for (std::size_t k = 0; k + 1 < fit.knots.size(); ++k) {
    const SamplePoint& from = fit.knots[k];
    const SamplePoint& to = fit.knots[k + 1];
    LinkPiece piece{from.bytes, to.bytes, 0, 0};
    // The bounds hold up to rounding only.
    piece.beta_s_per_byte = std::max(0.0, (to.seconds - from.seconds) / (to.bytes - from.bytes));
    piece.alpha_s = std::max(0.0, from.seconds - piece.beta_s_per_byte * from.bytes);
    curve.pieces.push_back(piece);
  }
  return curve;
}

// Sum of squares of log(predicted ÷ measured): a miss to half counts as one to double.
double squared_log_misses(const HoldOut& result) {
  double sum = 0;
  for (const Prediction& prediction : result.predictions) {
    const double miss = std::log(prediction.predicted_s / prediction.measured_s);
    sum += miss * miss;
  }
  return sum;
}

}  // namespace

CalibratedCurve fit_pieces(std::vector<SamplePoint> points, int max_pieces) {
  std::erase_if(points, [](const SamplePoint& point) {
    return !(point.bytes > 0) || !(point.seconds > 0) || !std::isfinite(point.seconds);
  });
  std::sort(points.begin(), points.end(),
            [](const SamplePoint& a, const SamplePoint& b) { return a.bytes < b.bytes; });
  const std::vector<SamplePoint> sizes = distinct_sizes(points);
  if (sizes.size() < 2) {
    throw Error(ExitCode::kUsage, "NQD2201",
                "a curve needs measurements of at least two payload sizes above 0, and there are " +
                    std::to_string(sizes.size()),
                "measure a sweep, such as `nqd bench all_reduce -b 4K -e 64M -f 4`");
  }
  std::optional<Fit> best = fit_with(points, sizes, 1);
  for (int pieces = 2; pieces <= std::min(max_pieces, kMostPieces); ++pieces) {
    const std::optional<Fit> finer = fit_with(points, sizes, pieces);
    if (!finer || best->max_residual <= kGoodEnough) continue;
    const auto more = static_cast<double>(pieces - static_cast<int>(best->knots.size()) + 1);
    const bool worthwhile =
        finer->max_residual <= std::pow(kWorthwhile, more) * best->max_residual ||
        finer->squared_residuals <= std::pow(kWorthwhileSquared, more) * best->squared_residuals;
    if (worthwhile) best = finer;
  }
  return to_curve(*best);
}

CalibratedCurve fit_curve(const std::vector<SamplePoint>& samples, double break_bytes) {
  CalibratedCurve curve = fit_pieces(samples);
  curve.break_bytes = break_bytes;
  if (curve.max_residual_fraction <= kResidualWarning) return curve;
  std::vector<SamplePoint> points = median_points(samples);
  const HoldOut between = hold_out(points, [&](const std::vector<SamplePoint>& kept) -> Predictor {
    return [=](double bytes) { return interpolate(kept, break_bytes, bytes); };
  });
  const HoldOut along = hold_out(points, [](const std::vector<SamplePoint>& kept) -> Predictor {
    return
        [pieces = fit_pieces(kept)](double bytes) { return curve_time_s(pieces, bytes, nullptr); };
  });
  if (between.predictions.empty() || squared_log_misses(between) >= squared_log_misses(along)) {
    return curve;
  }
  curve.points = std::move(points);
  curve.held_out_fraction = between.worst_fraction;
  return curve;
}

double curve_time_s(const CalibratedCurve& curve, double bytes, bool* extrapolated) {
  if (!curve.points.empty()) {
    if (extrapolated != nullptr) {
      *extrapolated = bytes < curve.points.front().bytes || bytes > curve.points.back().bytes;
    }
    return interpolate(curve.points, curve.break_bytes, bytes);
  }
  if (curve.pieces.empty()) {
    if (extrapolated != nullptr) *extrapolated = true;
    return 0;
  }
  const LinkPiece* piece = &curve.pieces.front();
  for (const LinkPiece& next : curve.pieces) {
    if (bytes >= next.from_bytes) piece = &next;
  }
  if (extrapolated != nullptr) {
    *extrapolated = bytes < curve.pieces.front().from_bytes || bytes > curve.pieces.back().to_bytes;
  }
  return piece->alpha_s + piece->beta_s_per_byte * bytes;
}

}  // namespace nqd::planner
