#include "planner/calibration/interpolation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace nqd::planner {
namespace {

using Points = std::span<const SamplePoint>;

// Log-log slope from points[k] to points[k + 1], and the distance between them.
double width(Points points, std::size_t k) {
  return std::log(points[k + 1].bytes / points[k].bytes);
}
double slope(Points points, std::size_t k) {
  return std::log(points[k + 1].seconds / points[k].seconds) / width(points, k);
}

// Of the cubic at points[k].
double tangent(Points points, std::size_t k) {
  if (k == 0) return slope(points, 0);
  if (k + 1 == points.size()) return slope(points, k - 1);
  const double left = slope(points, k - 1);
  const double right = slope(points, k);
  if (left * right <= 0) return 0;
  const double left_width = width(points, k - 1);
  const double right_width = width(points, k);
  const double left_weight = 2 * right_width + left_width;
  const double right_weight = right_width + 2 * left_width;
  return (left_weight + right_weight) / (left_weight / left + right_weight / right);
}

// Hermite form between points[k] and points[k + 1].
double between(Points points, std::size_t k, double bytes) {
  const double h = width(points, k);
  const double t = std::log(bytes / points[k].bytes) / h;
  const double from = std::log(points[k].seconds);
  const double to = std::log(points[k + 1].seconds);
  const double rest = 1 - t;
  return std::exp((1 + 2 * t) * rest * rest * from + t * rest * rest * h * tangent(points, k) +
                  t * t * (3 - 2 * t) * to - t * t * rest * h * tangent(points, k + 1));
}

// Beyond `end`, whose neighbour on the measured side is `inner` (itself when it is alone).
double beyond(const SamplePoint& end, const SamplePoint& inner, double bytes) {
  const double proportional = end.seconds * bytes / end.bytes;
  if (inner.bytes == end.bytes) return std::sqrt(end.seconds * proportional);
  const double beta = (end.seconds - inner.seconds) / (end.bytes - inner.bytes);
  const auto [low, high] = std::minmax(end.seconds, proportional);
  return std::clamp(end.seconds + beta * (bytes - end.bytes), low, high);
}

// The points on the side of the break on which `bytes` lies; all of them where that side has none.
Points side_of(Points points, double break_bytes, double bytes) {
  const auto above =
      std::upper_bound(points.begin(), points.end(), break_bytes,
                       [](double limit, const SamplePoint& point) { return limit < point.bytes; });
  const auto below_count = static_cast<std::size_t>(above - points.begin());
  const Points side =
      bytes <= break_bytes ? points.first(below_count) : points.subspan(below_count);
  return side.empty() ? points : side;
}

}  // namespace

std::vector<SamplePoint> median_points(std::vector<SamplePoint> samples) {
  std::erase_if(samples, [](const SamplePoint& sample) {
    return !(sample.bytes > 0) || !(sample.seconds > 0) || !std::isfinite(sample.seconds);
  });
  std::sort(samples.begin(), samples.end(), [](const SamplePoint& a, const SamplePoint& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  std::vector<SamplePoint> points;
  for (std::size_t first = 0; first < samples.size();) {
    std::size_t last = first;
    while (last < samples.size() && samples[last].bytes == samples[first].bytes) ++last;
    points.push_back(samples[first + (last - first - 1) / 2]);
    first = last;
  }
  return points;
}

double interpolate(const std::vector<SamplePoint>& points, double break_bytes, double bytes) {
  const Points side = side_of(points, break_bytes, bytes);
  if (bytes <= side.front().bytes)
    return beyond(side.front(), side[side.size() > 1 ? 1 : 0], bytes);
  if (bytes >= side.back().bytes) {
    return beyond(side.back(), side[side.size() - (side.size() > 1 ? 2 : 1)], bytes);
  }
  const auto next =
      std::upper_bound(side.begin(), side.end(), bytes,
                       [](double limit, const SamplePoint& point) { return limit < point.bytes; });
  return between(side, static_cast<std::size_t>(next - side.begin()) - 1, bytes);
}

}  // namespace nqd::planner
