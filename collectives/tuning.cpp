#include "collectives/tuning.h"

#include <algorithm>
#include <iterator>

namespace nqd::collectives {

Tuning::Tuning(const std::vector<TuningRow>& rows, std::string_view backend, bool registered) {
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(rows_), [&](const TuningRow& row) {
    return row.backend == backend && row.registered == registered && !row.choices.empty();
  });
}

std::optional<Algorithm> Tuning::algorithm(Collective collective, int ranks, bool inside_node,
                                           std::uint64_t bytes) const {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const TuningRow& candidate) {
    return candidate.collective == collective && candidate.ranks == ranks &&
           candidate.inside_node == inside_node;
  });
  if (row == rows_.end()) return std::nullopt;
  Algorithm algorithm = row->choices.front().algorithm;
  for (const TuningChoice& choice : row->choices) {
    if (choice.from_bytes <= bytes) algorithm = choice.algorithm;
  }
  return algorithm;
}

}  // namespace nqd::collectives
