// Units of odd sizes with leaves that any rank can make: what a store must do with them is known
// element by element.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/parallel/store/unit_store.h"
#include "planner/layout/state_shape.h"

namespace nqd::toy {

// One unit of tensors with so many elements each.
planner::LocalUnit unit(planner::UnitRole role, const std::string& name,
                        const std::vector<std::int64_t>& tensors);
// Prime, odd, single-element and empty tensors and units; one that does not pass through the slots
// of small messages. A token table of 57 elements; with a tied head and without.
std::vector<planner::LocalUnit> units();
std::vector<planner::LocalUnit> tied_units();

struct Case {
  planner::Engine engine = planner::Engine::kDdp;
  int dp = 1;
  int hsdp_shard = 1;
  int micro_batches = 1;
  collectives::Numerics numerics = collectives::Numerics::kCanonical;
  DType weights = DType::kFloat32;
  std::int64_t bucket_bytes = 2000;
  bool canonical() const { return numerics == collectives::Numerics::kCanonical; }
};
std::string words(const Case& one);
planner::StateShape shape_of(const Case& one);
// Every engine on 1, 2, 3, 4, 6 and 8 ranks, hsdp in every split of them, 1 to 4 micro-batches.
std::vector<Case> all_cases(collectives::Numerics numerics);

// Throws with the words of the case: a failed expectation on any rank fails the test.
void expect(bool holds, const Case& one, const std::string& what);

// A rank's groups, made from a world of exactly dp ranks.
class Groups {
 public:
  Groups(collectives::Communicator& world, const Case& one);
  engine::StoreGroups groups() const { return {dp_.get(), replicas_.get(), nullptr}; }
  collectives::Communicator& dp() const { return *dp_; }
  collectives::Communicator* replicas() const { return replicas_.get(); }

 private:
  std::unique_ptr<collectives::Communicator> dp_;
  std::unique_ptr<collectives::Communicator> replicas_;
};

// Runs `body` on dp ranks that are threads; on hosts of their own when `apart`, so that everything
// travels in messages.
void run(const Case& one, const std::function<void(collectives::Communicator& world)>& body,
         bool apart = false);

// Not zero, of either sign, over 20 binary orders of magnitude: sums depend on their order.
float leaf(const std::string& unit, std::int64_t element, std::int64_t index);
using Leaf =
    std::function<float(const std::string& unit, std::int64_t element, std::int64_t index)>;
// The tree over `count` leaves from `first` on.
float tree_sum(const Leaf& leaves, const std::string& unit, std::int64_t element,
               std::int64_t first, std::int64_t count);

// One whole step but for the update: gradients of all micro-batches, in the order in which backward
// has the units.
void run_gradients(engine::UnitStore& store, const Leaf& leaves = leaf);
// Calls f(unit, element of the unit, gradient) for all that this rank updates.
void for_each_gradient(engine::UnitStore& store,
                       const std::function<void(const planner::LocalUnit& unit,
                                                std::int64_t element, float gradient)>& f);

// Weight of an element before training.
void fill(const planner::TensorSpec& tensor, std::int64_t begin, std::span<float> out);
// A plain update, w ← w − g/1024 and a moment that keeps g, published.
void update(engine::UnitStore& store);
// Every unit's weights as float32, without padding, through acquire and release.
std::vector<float> all_weights(engine::UnitStore& store);

}  // namespace nqd::toy
