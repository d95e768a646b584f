#include "reports/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "collectives/types.h"

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

// The most that Open MPI's shared memory sends at once: btl_vader_eager_limit is 4096 with headers
// (`ompi_info --param btl vader --level 9`). A ring all_reduce of 8080 bytes among two ranks was
// measured at 11 us, one of 8096 at 17 (Open MPI 4.1.4).
constexpr double kOpenMpiEagerBytes = 4040;

double break_bytes(const collectives::BenchRow& row, const Envelope& envelope, bool inside_node) {
  using collectives::Algorithm;
  const std::optional<Algorithm> algorithm = collectives::parse_algorithm(row.algorithm);
  if (algorithm == Algorithm::kDirect) return static_cast<double>(collectives::kDirectSmallBytes);
  const bool open_mpi =
      std::any_of(envelope.libraries.begin(), envelope.libraries.end(), [](const auto& library) {
        return library.first == "mpi" && library.second.starts_with("Open MPI");
      });
  // A ring sends one rank's part of the vector at a time.
  const bool breaks =
      open_mpi && inside_node && row.transport == "mpi" && algorithm == Algorithm::kRing;
  return breaks ? kOpenMpiEagerBytes * row.ranks : 0;
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
      rows.push_back({&row, how_measured(row, document.envelope), inside_node,
                      break_bytes(row, document.envelope, inside_node)});
    }
  }
  return rows;
}

}  // namespace nqd::reports
