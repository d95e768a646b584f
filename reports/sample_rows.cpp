#include "reports/sample_rows.h"

#include <algorithm>
#include <cmath>

namespace nqd::reports {
namespace {

const std::string_view kCanonical = collectives::name(collectives::Numerics::kCanonical);

std::string how_measured(const collectives::BenchRow& row, const Envelope& envelope) {
  return "over " + row.backend + "/" + row.transport + ", " + row.dtype + " " + row.op +
         (row.in_place ? ", in place" : ", out of place") +
         (row.registered ? ", registered buffers" : "") + (row.copies > 1 ? ", cold buffers" : "") +
         (row.collective == "pingpong" ? ", pingpong" : "") +
         (row.numerics == kCanonical ? ", canonical numerics" : "") + ", host " +
         envelope.host.hostname;
}

// Why a row is no sample; empty when it is one.
std::string fault_of(const collectives::BenchRow& row) {
  if (row.wrong > 0) return std::to_string(row.wrong) + " wrong elements";
  if (!std::isfinite(row.p50_s) || row.p50_s <= 0) return "no time";
  if (row.effective_bytes == 0) return "no payload";
  return {};
}

bool on_one_host(const Envelope& envelope) {
  return std::all_of(
      envelope.ranks.begin(), envelope.ranks.end(),
      [&](const engine::RankIdentity& rank) { return rank.host == envelope.ranks.front().host; });
}

}  // namespace

std::string describe_curve(const std::string& collective, const std::string& algorithm, int ranks) {
  return collective + " " + algorithm + " on " + std::to_string(ranks) + " ranks";
}

std::vector<SampleRow> sample_rows(const std::vector<Evidence>& evidence,
                                   std::vector<std::string>& skipped) {
  std::vector<SampleRow> rows;
  for (const Evidence& document : evidence) {
    const bool inside_node = on_one_host(document.envelope);
    for (const collectives::BenchRow& row : document.bench.rows) {
      if (const std::string fault = fault_of(row); !fault.empty()) {
        skipped.push_back(document.path.string() + ": " +
                          describe_curve(row.collective, row.algorithm, row.ranks) + ", " +
                          std::to_string(row.effective_bytes) + " bytes: " + fault);
        continue;
      }
      rows.push_back({&row, how_measured(row, document.envelope), inside_node});
    }
  }
  return rows;
}

}  // namespace nqd::reports
