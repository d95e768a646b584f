// Calls out of order are errors, not wrong gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "base/error.h"
#include "engine/device/cpu_device.h"
#include "tests/cases/store_toy.h"

using namespace nqd;
using collectives::Communicator;
using collectives::Numerics;
using planner::Engine;
using toy::Case;
using toy::expect;

namespace {

// The code of what `f` throws on a store of one rank.
std::string code_of(const Case& one, const std::function<void(engine::UnitStore&)>& f) {
  engine::CpuDevice device;
  engine::UnitStore store(toy::shape_of(one), toy::units(), {}, 0, nullptr, device);
  store.initialize(toy::fill);
  store.begin_step();
  try {
    f(store);
  } catch (const Error& error) {
    return error.code();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("gradients that are missing, too many or never begun") {
  for (const Numerics numerics : {Numerics::kCanonical, Numerics::kFast}) {
    const Case one{Engine::kZero2, 1, 1, 2, numerics};
    CHECK(code_of(one, [](engine::UnitStore& store) { store.finish_step(); }) == "NQD2050");
    CHECK(code_of(one, [](engine::UnitStore& store) { store.end_gradient(0); }) == "NQD2050");
    CHECK(code_of(one, [](engine::UnitStore& store) {
            for (int i = 0; i < 3; ++i) {
              store.begin_gradient(0);
              store.end_gradient(0);
            }
          }) == "NQD2050");
    CHECK(code_of(one, [](engine::UnitStore& store) {
            expect(store.begin_gradient(0) == store.begin_gradient(0), {}, "the same place");
          }) == "nothing");
  }
}

TEST_CASE("a fresh gradient whose matrices the caller sets: vectors and padding are zero") {
  for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero3}) {
    const Case one{engine, 1, 1, 2, Numerics::kFast};
    engine::CpuDevice device;
    engine::UnitStore store(toy::shape_of(one), toy::units(), {}, 0, nullptr, device);
    for (int step = 0; step < 2; ++step) {
      store.begin_step();
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        for (std::size_t index = store.units().size(); index-- > 0;) {
          const planner::LocalUnit& unit = store.units()[index];
          const engine::OpenGradient open = store.open_gradient(static_cast<int>(index));
          CHECK(open.fresh == (micro_batch == 0));
          CHECK_FALSE(store.open_gradient(static_cast<int>(index)).fresh);
          for (const planner::LocalTensor& tensor : unit.tensors) {
            float* const data = open.data + tensor.offset;
            if (!open.fresh) continue;
            if (tensor.shape.size() == 1)
              CHECK(std::count(data, data + tensor.elements(), 0.0F) == tensor.elements());
            std::fill(data, data + tensor.elements(), 3.0F);
          }
          store.end_gradient(static_cast<int>(index));
        }
      }
      store.finish_step();
    }
  }
}

TEST_CASE("groups of another size than the shape says") {
  const Case one{Engine::kDdp, 2};
  engine::CpuDevice device;
  CHECK_THROWS_AS(engine::UnitStore(toy::shape_of(one), toy::units(), {}, 0, nullptr, device),
                  Error);
}

TEST_CASE("zero3: more units held than there are buffers, weights that change while held") {
  const Case one{Engine::kZero3, 2, 1, 1, Numerics::kFast};
  CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
    const toy::Groups groups(world, one);
    engine::CpuDevice device;
    engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr, device);
    const auto fails = [&](const std::function<void()>& f) {
      try {
        f();
      } catch (const Error& error) {
        return error.code() == "NQD2050";
      }
      return false;
    };
    expect(fails([&] { store.release(2); }), one, "a release without acquire");
    store.acquire(2);
    store.acquire(4);
    expect(fails([&] { store.acquire(5); }), one, "a third layer");
    expect(fails([&] { toy::update(store); }), one, "an update of held weights");
    store.release(2);
    store.acquire(5);
    store.begin_step();
    store.begin_gradient(2);
    store.begin_gradient(4);
    expect(fails([&] { store.begin_gradient(5); }), one, "three open gradients of layers");
  }));
}

TEST_CASE("a gradient that is not finite is named") {
  const Case one{Engine::kDdp, 1, 1, 1, Numerics::kCanonical};
  engine::CpuDevice device;
  engine::UnitStore store(toy::shape_of(one), toy::units(), {}, 0, nullptr, device);
  toy::run_gradients(store);
  CHECK(!store.first_non_finite());
  toy::run_gradients(store, [](const std::string& unit, std::int64_t element, std::int64_t) {
    const bool bad = unit == "long" && element == 2503 + 1 + 2;
    return bad ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
  });
  CHECK(store.first_non_finite() == "long.2, element 2");
}
