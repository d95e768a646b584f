#include "engine/scale/figures.h"

#include <algorithm>
#include <span>

namespace nqd::engine {
namespace {

std::vector<double> median_steps(const ScaleResult& result, const ScalePoint& point) {
  std::vector<double> medians;
  for (const ScaleRun& run : point.runs) {
    medians.push_back(
        median(std::span(run.step_s).subspan(static_cast<std::size_t>(result.warmup))));
  }
  return medians;
}

std::vector<double> rates(const ScalePoint& point, const std::vector<double>& step_s) {
  std::vector<double> all;
  for (const double seconds : step_s) all.push_back(static_cast<double>(point.tokens) / seconds);
  return all;
}

// Of all runs, or none.
std::vector<double> heldout_losses(const ScalePoint& point) {
  std::vector<double> losses;
  for (const ScaleRun& run : point.runs) {
    if (run.heldout_loss) losses.push_back(*run.heldout_loss);
  }
  return losses.size() == point.runs.size() ? losses : std::vector<double>{};
}

bool same_bits(const ScalePoint& point, const ScalePoint& base) {
  return std::equal(point.runs.begin(), point.runs.end(), base.runs.begin(), base.runs.end(),
                    [](const ScaleRun& a, const ScaleRun& b) {
                      return a.seed == b.seed && a.heldout_loss == b.heldout_loss &&
                             a.weights_sha256 == b.weights_sha256;
                    });
}

ScaleQuality quality_of(const ScaleResult& result, const ScalePoint& point, const ScalePoint& base,
                        const std::vector<double>& losses, const std::vector<double>& of_base) {
  std::vector<double> differences;
  std::vector<double> opposite;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    differences.push_back(losses[i] - of_base[i]);
    opposite.push_back(of_base[i] - losses[i]);
  }
  ScaleQuality quality;
  quality.margin = result.margin * mean(of_base);
  quality.difference = mean_interval(differences);
  quality.welch = welch_p(losses, of_base);
  if (point.regime == ScaleRegime::kEqualGlobalBatch && result.canonical) {
    quality.test = "bits";
    quality.ok = same_bits(point, base);
    quality.verdict = quality.ok ? "bit-identical" : "other-bits";
    return quality;
  }
  quality.p = below_p(differences, quality.margin);
  if (point.regime == ScaleRegime::kEqualGlobalBatch) {
    quality.test = "paired TOST";
    const std::optional<double> from_below = below_p(opposite, quality.margin);
    if (quality.p) quality.p = std::max(*quality.p, *from_below);
  } else {
    quality.test = "paired non-inferiority";
  }
  quality.ok = quality.p && *quality.p < kScaleLevel;
  const bool both = point.regime == ScaleRegime::kEqualGlobalBatch;
  quality.verdict = !quality.ok ? "not-shown" : both ? "equivalent" : "not-worse";
  return quality;
}

}  // namespace

std::string_view name(ScaleRegime regime) {
  return regime == ScaleRegime::kEqualGlobalBatch ? "equal-global-batch" : "equal-local-batch";
}

std::optional<ScaleRegime> parse_scale_regime(std::string_view text) {
  for (const auto regime : {ScaleRegime::kEqualGlobalBatch, ScaleRegime::kEqualLocalBatch}) {
    if (text == name(regime)) return regime;
  }
  return std::nullopt;
}

const ScalePoint& scale_base(const ScaleResult& result, const ScalePoint& point) {
  return *std::find_if(result.points.begin(), result.points.end(),
                       [&](const ScalePoint& one) { return one.regime == point.regime; });
}

std::vector<ScaleFigures> scale_figures(const ScaleResult& result) {
  std::vector<ScaleFigures> all;
  for (const ScalePoint& point : result.points) {
    const ScalePoint& base = scale_base(result, point);
    ScaleFigures figures;
    figures.step_s = median_steps(result, point);
    figures.tokens_per_s = rates(point, figures.step_s);
    figures.throughput = mean_interval(figures.tokens_per_s);
    if (!point.oversubscribed && !base.oversubscribed) {
      const std::vector<double> of_base = rates(base, median_steps(result, base));
      const double more = static_cast<double>(point.ranks) / static_cast<double>(base.ranks);
      for (std::size_t i = 0; i < of_base.size(); ++i) {
        figures.efficiencies.push_back(figures.tokens_per_s[i] / of_base[i] / more);
      }
      figures.efficiency = mean_interval(figures.efficiencies);
    }
    const std::vector<double> losses = heldout_losses(point);
    const std::vector<double> of_base = heldout_losses(base);
    if (!losses.empty()) figures.heldout = mean_interval(losses);
    if (&point != &base && !losses.empty() && losses.size() == of_base.size()) {
      figures.quality = quality_of(result, point, base, losses, of_base);
    }
    all.push_back(std::move(figures));
  }
  return all;
}

bool scale_ok(const ScaleResult& result, const std::vector<ScaleFigures>& figures) {
  const bool quality = std::all_of(figures.begin(), figures.end(), [](const ScaleFigures& one) {
    return !one.quality || one.quality->ok;
  });
  return quality &&
         std::all_of(result.points.begin(), result.points.end(), [](const ScalePoint& point) {
           return std::all_of(point.runs.begin(), point.runs.end(),
                              [](const ScaleRun& run) { return run.audit_failures.empty(); });
         });
}

}  // namespace nqd::engine
