// A simulated collective for people and programs.
#pragma once

#include <string>

#include "collectives/cost.h"
#include "collectives/simulation/simulation.h"

namespace nqd::cli {

// A table a step: who sends which elements to whom, and every rank's vector after it, complete
// elements starred; then what each rank sent beside the cost function.
std::string simulation_text(const collectives::Simulation& simulation);
// schemas/simulate-collective.schema.json.
std::string simulation_json(const collectives::Simulation& simulation);
// Chrome's trace event format, which Perfetto opens: a thread a rank, a slice a message on its
// sender, an arrow to its receiver. Every step lasts as long as its longest message takes on
// `link`.
std::string simulation_trace(const collectives::Simulation& simulation,
                             const collectives::Link& link);

}  // namespace nqd::cli
