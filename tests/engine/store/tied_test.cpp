// The token table as embedding and as head.
#include <doctest/doctest.h>

#include <bit>
#include <string>
#include <vector>

#include "collectives/world.h"
#include "engine/device/cpu_device.h"
#include "planner/layout/state_traffic.h"
#include "tests/cases/store_toy.h"

using namespace nqd;
using collectives::Communicator;
using collectives::Numerics;
using planner::Engine;
using planner::UnitRole;
using toy::Case;
using toy::expect;

namespace {

float tied_sum(std::int64_t element, std::int64_t leaves) {
  return toy::tree_sum(toy::leaf, "token", element, 0, leaves) +
         toy::tree_sum(toy::leaf, "tied", element, 0, leaves);
}

void check_table(engine::UnitStore& store, UnitRole role, const Case& one) {
  std::int64_t seen = 0;
  toy::for_each_gradient(store, [&](const planner::LocalUnit& unit, std::int64_t k, float found) {
    if (unit.role != role) return;
    const float expected = tied_sum(k, std::int64_t{one.dp} * one.micro_batches);
    expect(std::bit_cast<std::uint32_t>(found) == std::bit_cast<std::uint32_t>(expected), one,
           "element " + std::to_string(k) + " of the table is " + std::to_string(found) + ", not " +
               std::to_string(expected));
    ++seen;
  });
  if (store.shape().parts() == 1) expect(seen == 57, one, "elements of the table");
}

std::vector<Case> few_cases() {
  std::vector<Case> cases;
  for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    for (const int dp : {1, 2, 3}) {
      for (const int m : {1, 3}) cases.push_back({engine, dp, 1, m, Numerics::kCanonical});
    }
  }
  cases.push_back({Engine::kHsdp, 4, 2, 2, Numerics::kCanonical});
  return cases;
}

}  // namespace

TEST_CASE("both uses on one stage: two trees, then their sum, counted once in the norm") {
  for (const Case& one : few_cases()) {
    CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
      const toy::Groups groups(world, one);
      engine::CpuDevice device;
      engine::UnitStore store(toy::shape_of(one), toy::tied_units(), groups.groups(), 0, nullptr,
                              device);
      store.initialize(toy::fill);
      const auto tied = static_cast<int>(store.units().size()) - 1;
      const std::byte* const table = store.acquire(0);
      expect(store.acquire(tied) == table, one, "the head reads the embedding's table");
      store.release(0);
      store.release(tied);
      toy::run_gradients(store);
      check_table(store, UnitRole::kTokenEmbedding, one);
      if (one.dp > 1) return;
      engine::ExactSum expected;
      toy::for_each_gradient(store, [&](const planner::LocalUnit&, std::int64_t, float gradient) {
        expected.add_squares({&gradient, 1});
      });
      expect(store.squared_gradients().words() == expected.words(), one, "the norm");
    }));
  }
}

TEST_CASE("uses on two stages: both ends have the same gradient and stay equal") {
  for (Case one : few_cases()) {
    const int dp = one.dp;
    CHECK_NOTHROW(collectives::run_threads(2 * dp, {}, [&](Communicator& world) {
      // Ranks 0 … dp−1 are the first stage.
      const int stage = world.rank() / dp;
      const auto half = world.split(stage, world.rank(), "stage");
      const auto ends = world.split(world.rank() % dp, world.rank(), "embedding");
      const toy::Groups groups(*half, one);
      engine::StoreGroups with = groups.groups();
      with.embedding = ends.get();
      std::vector<planner::LocalUnit> units;
      if (stage == 0) {
        units.push_back(toy::unit(UnitRole::kTokenEmbedding, "token", {57}));
        units.push_back(toy::unit(UnitRole::kLayer, "first", {11}));
      } else {
        units.push_back(toy::unit(UnitRole::kHead, "head", {101}));
        units.push_back(toy::unit(UnitRole::kTied, "tied", {57}));
      }
      const UnitRole role = stage == 0 ? UnitRole::kTokenEmbedding : UnitRole::kTied;
      const int table = stage == 0 ? 0 : 1;
      planner::StateShape shape = toy::shape_of(one);
      shape.tied_ends = true;
      engine::CpuDevice device;
      engine::UnitStore store(shape, units, with, 0, nullptr, device);
      // The tensor's name is the table's on both.
      store.initialize([](const planner::TensorSpec&, std::int64_t begin, std::span<float> out) {
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i] = toy::leaf("table", begin + static_cast<std::int64_t>(i), 1);
        }
      });
      for (int step = 0; step < 2; ++step) {
        toy::run_gradients(store);
        check_table(store, role, one);
        toy::update(store);
      }
      for (const planner::StateTraffic& row :
           planner::state_traffic(shape, store.units(), store.rank(), {})) {
        if (row.group != "embedding") continue;
        const collectives::TrafficCount sent = ends->traffic().at({"embedding", row.collective});
        expect(sent.calls == 2 * row.calls && sent.bytes_sent == 2 * row.bytes_sent &&
                   sent.messages == 2 * row.messages && sent.bytes_sent > 0,
               one, "traffic between the ends");
      }
      const auto* const mine = reinterpret_cast<const float*>(store.acquire(table));
      std::vector<float> both(2 * 57);
      ends->all_gather(std::as_bytes(std::span(mine, 57)), std::as_writable_bytes(std::span(both)),
                       DType::kFloat32);
      store.release(table);
      expect(std::equal(both.begin(), both.begin() + 57, both.begin() + 57), one,
             "the copies drift apart");
      // Only the embedding counts in the norm.
      engine::ExactSum counted;
      toy::for_each_gradient(store, [&](const planner::LocalUnit& unit, std::int64_t, float g) {
        if (unit.role != UnitRole::kTied) counted.add_squares({&g, 1});
      });
      if (dp == 1) expect(counted.words() == store.squared_gradients().words(), one, "the norm");
    }));
  }
}
