// Weights: filled, updated, published and gathered, the same on every mesh.
#include <doctest/doctest.h>

#include <bit>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/device/cpu_device.h"
#include "engine/parallel/store/export.h"
#include "tests/cases/store_toy.h"

using namespace nqd;
using collectives::Communicator;
using collectives::Numerics;
using planner::Engine;
using toy::Case;
using toy::expect;

namespace {

std::vector<engine::ChunkOwners> owners_of(const engine::UnitStore& store) {
  engine::ChunkOwners owners;
  owners.units = {store.units()};
  owners.ranks.resize(1);
  for (int part = 0; part < store.shape().parts(); ++part) owners.ranks.front().push_back(part);
  return {owners};
}

struct Outcome {
  std::string digest;
  std::vector<float> weights;  // as they compute
  bool operator==(const Outcome&) const = default;
};

// Three steps.
Outcome train(const Case& one) {
  Outcome outcome;
  toy::run(one, [&](Communicator& world) {
    const toy::Groups groups(world, one);
    engine::CpuDevice device;
    engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr, device);
    store.initialize(toy::fill);
    for (int step = 0; step < 3; ++step) {
      toy::run_gradients(store);
      toy::update(store);
    }
    const Outcome mine{engine::weights_sha256(store, owners_of(store), world),
                       toy::all_weights(store)};
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (outcome.digest.empty()) outcome = mine;
    expect(outcome == mine, one, "ranks differ in their weights");
  });
  return outcome;
}

std::vector<float> filled(const std::vector<planner::LocalUnit>& units) {
  std::vector<float> all;
  for (const planner::LocalUnit& unit : units) {
    for (const planner::LocalTensor& tensor : unit.tensors) {
      std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
      toy::fill(tensor.full, 0, values);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("after updates all engines have equal weights") {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Outcome alone = train({Engine::kDdp, 1, 1, 12, Numerics::kCanonical, type});
    CHECK(alone.digest.size() == 64);
    for (const int dp : {2, 3, 4}) {
      for (const Engine engine :
           {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3, Engine::kHsdp}) {
        if (engine == Engine::kHsdp && dp != 4) continue;
        const Case one{engine, dp, 2, 12 / dp, Numerics::kCanonical, type};
        INFO(toy::words(one));
        CHECK(train(one) == alone);
      }
    }
  }
}

TEST_CASE("weights begin as they are filled, and 16-bit ones are their master rounded") {
  const std::vector<float> expected = filled(toy::units());
  for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero3}) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const Case one{engine, 3, 1, 1, Numerics::kCanonical, type};
      CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
        const toy::Groups groups(world, one);
        engine::CpuDevice device;
        engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr,
                                device);
        store.initialize(toy::fill);
        const std::vector<float> found = toy::all_weights(store);
        expect(found.size() == expected.size(), one, "elements");
        for (std::size_t i = 0; i < found.size(); ++i) {
          const float rounded = type == DType::kFloat32    ? expected[i]
                                : type == DType::kBFloat16 ? to_float(to_bfloat16(expected[i]))
                                                           : to_float(to_float16(expected[i]));
          expect(found[i] == rounded, one, "element " + std::to_string(i));
        }
        store.for_each_shard([&](const engine::ShardRun& run) {
          std::vector<float> values(run.weights.size());
          toy::fill(run.tensor->full, run.local, values);
          expect(std::equal(values.begin(), values.end(), run.weights.begin()), one, "master");
          expect(std::equal(values.begin(), values.end(), run.ema.begin()), one, "ema");
        });
      }));
    }
  }
}

TEST_CASE("zero3 gathers once a use, ahead of it where asked, and never what is stale") {
  const Case one{Engine::kZero3, 2, 1, 1, Numerics::kCanonical};
  CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
    const toy::Groups groups(world, one);
    engine::CpuDevice device;
    engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr, device);
    store.initialize(toy::fill);
    const auto gathers = [&] {
      const auto traffic = groups.dp().traffic();
      const auto found = traffic.find({"dp", collectives::Collective::kAllGather});
      return found == traffic.end() ? 0 : found->second.calls;
    };
    constexpr int kFirst = 2;  // layers
    constexpr int kLong = 4;
    constexpr int kLast = 5;
    store.prefetch(kFirst);
    store.prefetch(kFirst);
    const std::byte* const first = store.acquire(kFirst);
    expect(gathers() == 1, one, "a prefetched unit is gathered once");
    store.prefetch(kLong);
    expect(store.acquire(kFirst) == first, one, "a held unit stays where it is");
    expect(gathers() == 2, one, "two units");
    store.prefetch(kLast);
    expect(gathers() == 2, one, "no buffer is left to prefetch into");
    store.release(kFirst);
    store.release(kFirst);
    const auto* const data = reinterpret_cast<const float*>(store.acquire(kLong));
    std::vector<float> expected(2503);
    toy::fill(store.units()[kLong].tensors[0].full, 0, expected);
    expect(std::equal(expected.begin(), expected.end(), data), one, "gathered weights");
    store.release(kLong);
    expect(gathers() == 2, one, "nothing was gathered again");
    // What was fetched before the update is not what is computed with after it.
    store.prefetch(kFirst);
    toy::run_gradients(store);
    toy::update(store);
    const auto* const updated = reinterpret_cast<const float*>(store.acquire(kFirst));
    std::vector<float> before(101);
    toy::fill(store.units()[kFirst].tensors[0].full, 0, before);
    bool changed = true;
    for (std::size_t i = 0; i < before.size(); ++i) changed = changed && updated[i] != before[i];
    expect(changed, one, "stale weights");
    store.release(kFirst);
    expect(gathers() == 4, one, "gathered again after the update");
  }));
}

TEST_CASE("a unit that is not gathered again is noticed") {
  for (const Engine engine : {Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    const Case one{engine, 2, 1, 1, Numerics::kCanonical};
    std::vector<float> right;
    std::vector<float> stale;
    for (std::vector<float>* const found : {&right, &stale}) {
      CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
        const toy::Groups groups(world, one);
        engine::CpuDevice device;
        engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr,
                                device);
        store.initialize(toy::fill);
        if (found == &stale) store.seed_fault_for_test(engine::StoreFault::kStaleGather);
        toy::all_weights(store);
        toy::run_gradients(store);
        toy::update(store);
        const std::vector<float> weights = toy::all_weights(store);
        if (world.rank() == 0) *found = weights;
      }));
    }
    CHECK(right.size() == stale.size());
    CHECK(right != stale);
  }
}
