#include "reports/engine_rates.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "planner/reference/kernels.h"

namespace nqd::reports {
namespace {

struct RatesKey {
  std::string numerics, precision;
  int threads = 1, ranks = 1;
  auto operator<=>(const RatesKey&) const = default;
};

struct Measured {
  std::string host;
  int cpus = 0;
  std::map<planner::Kernel, std::vector<planner::KernelSample>> kernels;
  std::vector<double> in_place;
};

void add_row(const collectives::KernelRow& row, Measured& to) {
  const auto kernel = planner::parse_kernel(row.kernel);
  if (!kernel || !(row.p50_s > 0) || !(row.units > 0)) return;
  to.kernels[*kernel].push_back({{row.items, row.units}, row.p50_s});
}

// Of one document's rows of one key.
std::optional<double> in_place_of(const std::vector<collectives::KernelRow>& rows) {
  double parts_s = 0;
  double step_s = 0;
  for (const collectives::KernelRow& row : rows) {
    if (row.kernel == "step") {
      step_s = row.p50_s;
    } else {
      parts_s += row.calls * row.p50_s;
    }
  }
  if (!(step_s > 0) || !(parts_s > 0)) return std::nullopt;
  return step_s / parts_s;
}

planner::EngineRates fitted(const RatesKey& key, const Measured& measured) {
  planner::EngineRates rates;
  rates.numerics = *collectives::parse_numerics(key.numerics);
  rates.precision = *planner::parse_precision(key.precision);
  rates.threads = key.threads;
  rates.ranks = key.ranks;
  rates.cpus = measured.cpus;
  if (!measured.in_place.empty()) rates.in_place = collectives::percentile(measured.in_place, 0.5);
  for (const auto& [kernel, samples] : measured.kernels) {
    rates.kernels.push_back(planner::fit_kernel(kernel, samples));
  }
  return rates;
}

}  // namespace

std::vector<planner::EngineRates> fit_engine(const std::vector<Evidence>& evidence) {
  std::map<RatesKey, Measured> all;
  for (const Evidence& document : evidence) {
    std::map<RatesKey, std::vector<collectives::KernelRow>> of_document;
    for (const collectives::KernelRow& row : document.bench.kernel_rows) {
      if (!collectives::parse_numerics(row.numerics) || !planner::parse_precision(row.precision))
        continue;
      of_document[{row.numerics, row.precision, row.threads, row.ranks}].push_back(row);
    }
    const std::string& host = document.envelope.host.hostname;
    for (const auto& [key, rows] : of_document) {
      Measured& measured = all[key];
      if (!measured.host.empty() && measured.host != host) {
        throw Error(
            ExitCode::kUsage, "NQD2202",
            "the engine's kernels were measured on two hosts: " + measured.host + " and " + host,
            "keep one cluster file for each kind of host");
      }
      measured.host = host;
      measured.cpus = rows.front().cpus;
      for (const collectives::KernelRow& row : rows) add_row(row, measured);
      if (const auto in_place = in_place_of(rows)) measured.in_place.push_back(*in_place);
    }
  }
  std::vector<planner::EngineRates> rates;
  for (const auto& [key, measured] : all) {
    if (!measured.kernels.empty()) rates.push_back(fitted(key, measured));
  }
  return rates;
}

}  // namespace nqd::reports
