#include "collectives/bench/series.h"

#include <algorithm>
#include <tuple>

namespace nqd::collectives {
namespace {

auto kind_of(const BenchRow& row) {
  return std::tie(row.collective, row.backend, row.transport, row.algorithm, row.in_place,
                  row.registered, row.dtype, row.op, row.ranks);
}

}  // namespace

std::vector<Series> series_of(std::span<const BenchRow> rows) {
  std::vector<Series> all;
  for (const BenchRow& row : rows) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Series& series) {
      return kind_of(*series.front()) == kind_of(row);
    });
    if (found == all.end()) {
      all.push_back({&row});
    } else {
      found->push_back(&row);
    }
  }
  for (Series& series : all) {
    std::stable_sort(series.begin(), series.end(), [](const BenchRow* a, const BenchRow* b) {
      return a->effective_bytes < b->effective_bytes;
    });
  }
  return all;
}

Series plateau_of(const Series& series) {
  double best = 0;
  for (const BenchRow* row : series) {
    if (row->effective_bytes >= kPlateauMinBytes) best = std::max(best, row->busbw_gbps);
  }
  Series plateau;
  std::copy_if(series.begin(), series.end(), std::back_inserter(plateau), [&](const BenchRow* row) {
    return row->effective_bytes >= kPlateauMinBytes && row->busbw_gbps >= kPlateauShare * best;
  });
  return plateau;
}

LatencyLine fit_line(const Series& series) {
  // Minimizes Σ (1 − (α + β s) / t)²: the normal equations in 1/t and s/t.
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const BenchRow* row : series) {
    const double x = 1 / row->p50_s;
    const double y = static_cast<double>(row->effective_bytes) / row->p50_s;
    aa += x * x;
    ab += x * y;
    bb += y * y;
    a += x;
    b += y;
  }
  const double determinant = aa * bb - ab * ab;
  if (series.front()->effective_bytes == series.back()->effective_bytes ||
      determinant <= 1e-12 * aa * bb) {
    return {0, b / bb};
  }
  const double alpha = (a * bb - b * ab) / determinant;
  if (alpha <= 0) return {0, b / bb};
  return {alpha, (b * aa - a * ab) / determinant};
}

}  // namespace nqd::collectives
