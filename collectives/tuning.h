// Which algorithm kAuto means by payload size: measured crossover points. `nqd calibrate` finds
// them in a sweep of all algorithms, and the cluster file carries them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/types.h"

namespace nqd::collectives {

// From this payload on, until the next choice.
struct TuningChoice {
  std::uint64_t from_bytes = 0;
  Algorithm algorithm = Algorithm::kAuto;
  friend bool operator==(const TuningChoice&, const TuningChoice&) = default;
};

// The choices of one collective in one place, ascending; the first also holds below its size.
struct TuningRow {
  Collective collective = Collective::kAllReduce;
  int ranks = 0;
  bool inside_node = true;  // measured among ranks of one node
  std::string backend;      // "local", "mpi" or "shm"
  bool registered = false;  // vectors in shared buffers
  std::vector<TuningChoice> choices;
};

class Tuning {
 public:
  // Keeps the rows of this backend and of such buffers. Whether buffers are registered is the
  // caller's word for all its calls, since ranks must choose alike without asking one another.
  Tuning(const std::vector<TuningRow>& rows, std::string_view backend, bool registered);

  // Of a payload as collectives/cost.h counts it. Nothing where no row fits exactly: a choice that
  // was measured among other ranks or across another fabric is none.
  std::optional<Algorithm> algorithm(Collective collective, int ranks, bool inside_node,
                                     std::uint64_t bytes) const;

 private:
  std::vector<TuningRow> rows_;
};

}  // namespace nqd::collectives
