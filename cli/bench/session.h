// What the commands of `nqd bench` that run ranks have in common.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/bench/bench.h"
#include "collectives/world.h"
#include "engine/records.h"

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context;

struct SessionFlags {
  std::optional<int> ranks;
  double deadline_s = 60;
  bool json = false;
  std::string output;
};
// --ranks, --deadline, --json and --output.
void add_session_flags(CLI::App& command, SessionFlags& flags);

// One rank's part: fills the result, the same on all ranks, and adds its verdicts. `table` says
// whether this rank prints text.
using Measurement =
    std::function<void(collectives::Communicator& world, collectives::BenchResult&, bool table)>;

struct SessionNeeds {
  int ranks = 1;              // at least; fewer are Error (kNo, NQD3005)
  double bytes_per_rank = 0;  // checked against the host's memory
};
// Runs `measure` on every rank between two readings of the machine; then judges the placement, and
// prints and writes the document. Returns the exit code.
int run_session(const SessionFlags& flags, const Context& context, const SessionNeeds& needs,
                const Measurement& measure);

// Runs `body` on every rank of a world of `world` with the ranks and the deadline of `flags`, and
// returns what it returned here. Ranks that do not see each other are reported before the error.
int run_ranks(const SessionFlags& flags, const Context& context, collectives::WorldOptions world,
              const std::function<int(collectives::Communicator&)>& body);

// Collective. Who took part.
std::vector<engine::RankIdentity> gather_ranks(collectives::Communicator& world,
                                               const std::string& launcher);

// One comment block a verdict, on stdout.
void print_verdicts(const std::vector<collectives::Verdict>& verdicts);

}  // namespace nqd::cli
