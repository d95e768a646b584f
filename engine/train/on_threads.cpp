#include "engine/train/on_threads.h"

#include <utility>

#include "collectives/world.h"

namespace nqd::engine {

TrainResult train_on_threads(const planner::Plan& plan, const TrainingData& data,
                             const TrainOptions& options,
                             const std::function<bool(const TrainResult& so_far)>& asked_to_stop) {
  TrainResult result;
  collectives::run_threads(static_cast<int>(plan.config.parallel.ranks()), {},
                           [&](collectives::Communicator& world) {
                             TrainResult own;
                             TrainOptions of_rank = options;
                             if (asked_to_stop) {
                               of_rank.asked_to_stop = [&] { return asked_to_stop(own); };
                             }
                             train(world, plan, data, of_rank, own);
                             if (world.rank() == 0) result = std::move(own);
                           });
  return result;
}

}  // namespace nqd::engine
