#include "engine/train/replan.h"

#include <vector>

#include "base/log.h"
#include "engine/train/across_ranks.h"
#include "planner/plan/gradient_choice.h"
#include "planner/planner.h"

namespace nqd::engine {

std::optional<planner::Plan> replan(collectives::Communicator& world, const planner::Config& config,
                                    const MeshGroups& groups) {
  // One answer for all ranks, whose groups may differ.
  const bool reach_holds = sum_over(world, groups.reach_holds() ? 0.0 : 1.0) == 0;
  planner::Config here = config;
  here.cluster.ranks_share_memory = here.cluster.ranks_share_memory && reach_holds;
  const planner::GradientChoice planned = planner::choose_gradient_algorithm(config);
  const planner::GradientChoice choice = planner::choose_gradient_algorithm(here, groups.backend);
  if (choice.note && world.rank() == 0 &&
      (!planned.note || choice.note->message != planned.note->message)) {
    log::info(choice.note->message);
  }
  if (choice.algorithm == planned.algorithm &&
      here.cluster.ranks_share_memory == config.cluster.ranks_share_memory) {
    return std::nullopt;
  }
  std::erase_if(here.cluster.crossovers,
                [&](const planner::Crossovers& row) { return row.backend != groups.backend; });
  return planner::make_plan(here);
}

}  // namespace nqd::engine
