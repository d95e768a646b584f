// What a step's gradients add up to, what they cost in memory, and what was sent.
#include <doctest/doctest.h>

#include <string>

#include "engine/device/cpu_device.h"
#include "engine/threads/worker_pool.h"
#include "planner/layout/state_buffers.h"
#include "tests/cases/store_cases.h"

using namespace nqd;
using collectives::Communicator;
using collectives::Numerics;
using planner::Engine;
using toy::Case;
using toy::expect;

namespace {

void check(const Case& one, bool apart = false) {
  toy::run(
      one, [&](Communicator& world) { toy::check_case(world, one); }, apart);
}

}  // namespace

TEST_CASE("canonical: the tree over all leaves, to the bit, on every mesh") {
  for (const Case& one : toy::all_cases(Numerics::kCanonical)) {
    CHECK_NOTHROW(check(one));
  }
}

TEST_CASE("fast: the same sums up to rounding") {
  for (const Case& one : toy::all_cases(Numerics::kFast)) {
    CHECK_NOTHROW(check(one));
  }
}

TEST_CASE("ranks that share no memory: the same bits in messages") {
  for (const Numerics numerics : {Numerics::kCanonical, Numerics::kFast}) {
    for (const Case& one :
         {Case{Engine::kDdp, 4, 1, 2, numerics}, Case{Engine::kDdp, 3, 1, 3, numerics},
          Case{Engine::kZero1, 4, 1, 2, numerics}, Case{Engine::kZero1, 3, 1, 3, numerics},
          Case{Engine::kZero2, 3, 1, 2, numerics}, Case{Engine::kZero3, 4, 1, 3, numerics},
          Case{Engine::kHsdp, 4, 2, 2, numerics}, Case{Engine::kHsdp, 6, 3, 1, numerics}}) {
      CHECK_NOTHROW(check(one, true));
    }
  }
}

TEST_CASE("a bucket one element short, exactly full, and one element long") {
  // "last" and "head" together: 13 + 3 + 101 elements of 4 bytes.
  for (const std::int64_t bytes : {4 * 117 - 4, 4 * 117, 4 * 117 + 4, 4, 1 << 20}) {
    Case one{Engine::kDdp, 3, 1, 2, Numerics::kCanonical};
    one.bucket_bytes = bytes;
    CHECK_NOTHROW(check(one));
  }
}

TEST_CASE("the mapping of leaves covers every micro-batch of the step once") {
  for (const Case& one : toy::all_cases(Numerics::kFast)) {
    const planner::StateShape shape = toy::shape_of(one);
    std::vector<int> seen(static_cast<std::size_t>(one.dp * one.micro_batches));
    for (int rank = 0; rank < one.dp; ++rank) {
      for (int i = 0; i < one.micro_batches; ++i) {
        const std::int64_t leaf =
            planner::leaf_index(shape.gradient_shards(), one.micro_batches, rank, i);
        ++seen[static_cast<std::size_t>(leaf)];
      }
    }
    CHECK(seen == std::vector<int>(seen.size(), 1));
  }
  // The formula of the design by hand: 2 replicas of 2 shards, 3 micro-batches.
  CHECK(planner::leaf_index(2, 3, 0, 0) == 0);
  CHECK(planner::leaf_index(2, 3, 1, 0) == 1);
  CHECK(planner::leaf_index(2, 3, 0, 2) == 4);
  CHECK(planner::leaf_index(2, 3, 3, 1) == 9);
  CHECK(planner::leaf_index(1, 3, 2, 1) == 7);
}

TEST_CASE("1024 micro-gradients of 1 + 2^-9 under bfloat16 weights add up exactly") {
  for (const Engine engine : {Engine::kDdp, Engine::kZero2, Engine::kZero3}) {
    for (const Numerics numerics : {Numerics::kCanonical, Numerics::kFast}) {
      Case one{engine, 2, 1, 512, numerics, DType::kBFloat16};
      CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
        const toy::Groups groups(world, one);
        engine::CpuDevice device;
        engine::UnitStore store(toy::shape_of(one),
                                {toy::unit(planner::UnitRole::kLayer, "layer", {5})},
                                groups.groups(), 0, nullptr, device);
        toy::run_gradients(
            store, [](const std::string&, std::int64_t, std::int64_t) { return 1 + 0x1p-9F; });
        toy::for_each_gradient(store, [&](const planner::LocalUnit&, std::int64_t, float sum) {
          expect(sum == 1026.0F, one, "the sum is " + std::to_string(sum));
        });
      }));
    }
  }
}

TEST_CASE("squared gradients count every parameter once") {
  for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    for (const int dp : {1, 3, 4}) {
      const Case one{engine, dp, 1, 2, Numerics::kCanonical};
      engine::ExactSum expected;
      for (const auto& [unit, sums] : toy::definition(std::int64_t{dp} * 2))
        expected.add_squares(sums);
      CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
        const toy::Groups groups(world, one);
        engine::CpuDevice device;
        engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr,
                                device);
        toy::run_gradients(store);
        engine::ExactSum::Words words = store.squared_gradients().words();
        const auto bytes = std::as_writable_bytes(std::span(words));
        world.all_reduce(bytes, bytes, DType::kInt64, collectives::ReduceOp::kSum);
        expect(engine::ExactSum(words).words() == expected.words(), one, "sum of squares");
        // Of tensors that all tp ranks hold, only the first counts.
        engine::UnitStore other(toy::shape_of(one), toy::units(), groups.groups(), 1, nullptr,
                                device);
        toy::run_gradients(other);
        expect(other.squared_gradients().value() == 0, one, "replicas over tp are counted twice");
      }));
    }
  }
}

TEST_CASE("threads of a rank change nothing") {
  const Case one{Engine::kZero2, 2, 1, 3, Numerics::kCanonical, DType::kBFloat16};
  CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
    const toy::Groups groups(world, one);
    // Longer than what is worth sharing out, on two ranks.
    const std::vector<planner::LocalUnit> units = {
        toy::unit(planner::UnitRole::kLayer, "layer", {100'003})};
    std::vector<engine::ExactSum::Words> squares;
    std::vector<std::vector<float>> weights;
    for (const int threads : {1, 3}) {
      engine::CpuDevice device(threads);
      engine::UnitStore store(toy::shape_of(one), units, groups.groups(), 0, nullptr, device);
      store.initialize(toy::fill);
      toy::run_gradients(store);
      squares.push_back(store.squared_gradients().words());
      toy::update(store);
      weights.push_back(toy::all_weights(store));
    }
    expect(squares[0] == squares[1], one, "sums of squares");
    expect(weights[0] == weights[1], one, "weights");
  }));
}

TEST_CASE("a sum that is left out is noticed under every engine") {
  for (const Case& one :
       {Case{Engine::kDdp, 2, 1, 1}, Case{Engine::kDdp, 3, 1, 3}, Case{Engine::kZero1, 2, 1, 2},
        Case{Engine::kZero2, 2, 1, 2}, Case{Engine::kZero2, 3, 1, 1}, Case{Engine::kZero3, 4, 1, 1},
        Case{Engine::kHsdp, 4, 2, 1}}) {
    CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
      const toy::Groups groups(world, one);
      engine::CpuDevice device;
      engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr,
                              device);
      store.seed_fault_for_test(engine::StoreFault::kSkippedSum);
      const toy::Sums& sums = toy::definition(std::int64_t{one.dp} * one.micro_batches);
      for (int step = 0; step < 2; ++step) {
        toy::run_gradients(store);
        int wrong = 0;
        toy::for_each_gradient(store,
                               [&](const planner::LocalUnit& unit, std::int64_t k, float found) {
                                 wrong += found != sums.at(unit.name)[static_cast<std::size_t>(k)];
                               });
        expect(wrong > 0, one, "nothing is wrong");
      }
    }));
  }
}

TEST_CASE("the buffers of one rank by hand: 10 and 4 elements, zero2 on 3 ranks") {
  planner::StateShape shape = toy::shape_of({Engine::kZero2, 3, 1, 2});
  shape.weights = DType::kBFloat16;
  const std::vector<planner::LocalUnit> units = {toy::unit(planner::UnitRole::kLayer, "a", {10}),
                                                 toy::unit(planner::UnitRole::kLayer, "b", {4}),
                                                 toy::unit(planner::UnitRole::kLayer, "c", {1})};
  // Parts of 4, 2 and 1, padded to 12, 6 and 3.
  const auto listed = [&](std::int64_t rank) {
    std::string text;
    for (const planner::StateBuffer& buffer : planner::state_buffers(shape, units, rank)) {
      text += buffer.name + " " + std::to_string(buffer.count) + "x" +
              std::to_string(buffer.bytes) + (buffer.shared ? " shared; " : "; ");
    }
    return text;
  };
  // Leaves 0 … 5 are added one by one: two partial sums are kept at a time.
  CHECK(listed(0) ==
        "weights 1x42 shared; master 1x28; moments 1x28; ema 1x28; gradients 2x28 shared; "
        "leaf.layer 2x48 shared; received.layer 2x48; ");
  shape.numerics = Numerics::kFast;
  CHECK(listed(2) ==
        "weights 1x42 shared; master 1x28; moments 1x28; ema 1x28; gradients 1x28 shared; "
        "leaf.layer 2x48 shared; received.layer 2x16; ");
  shape.engine = Engine::kZero3;
  shape.micro_batches = 1;
  CHECK(listed(1) ==
        "weights 1x14 shared; master 1x28; moments 1x28; ema 1x28; gradients 1x28 shared; "
        "leaf.layer 2x48 shared; gathered.layer 2x24; ");
  shape.engine = Engine::kDdp;
  shape.numerics = Numerics::kCanonical;
  shape.micro_batches = 4;
  shape.moments = 2;
  CHECK(listed(1) ==
        "weights 1x30; master 1x60; moments 2x60; ema 1x60; gradients 2x60 shared; "
        "leaf.layer 1x40; ");
  shape.dp = 1;
  CHECK(listed(0) ==
        "weights 1x30; master 1x60; moments 2x60; ema 1x60; gradients 2x60; leaf.layer 1x40; ");
}

TEST_CASE("squares of the leaves alone are those of every micro-batch, on every mesh") {
  for (const int dp : {1, 2, 3, 4}) {
    for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
      for (const Numerics numerics : {Numerics::kCanonical, Numerics::kFast}) {
        const Case one{engine, dp, 1, 12 / dp, numerics};
        CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
          const toy::Groups groups(world, one);
          engine::CpuDevice device;
          engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr,
                                  device);
          store.measure_leaves(true);
          toy::run_gradients(store);
          const planner::StateShape& shape = store.shape();
          engine::ExactSum expected;
          for (std::int64_t i = 0; i < store.measured_leaves(); ++i) {
            const std::int64_t index =
                planner::leaf_index(shape.gradient_shards(), shape.micro_batches, store.rank(), i);
            for (const planner::LocalUnit& unit : store.units()) {
              if (unit.role == planner::UnitRole::kTokenEmbedding) continue;
              for (std::int64_t k = 0; k < unit.elements; ++k) {
                const float value = toy::leaf(unit.name, k, index);
                expected.add_squares({&value, 1});
              }
            }
          }
          expect(store.squared_leaves().words() == expected.words(), one, "squares of leaves");
          const bool all = one.canonical() || shape.gradient_shards() > 1;
          expect(store.measured_leaves() == (all ? one.micro_batches : 1), one, "leaves");
          engine::ExactSum::Words rest = store.squared_gradients_but_table().words();
          const auto bytes = std::as_writable_bytes(std::span(rest));
          world.all_reduce(bytes, bytes, DType::kInt64, collectives::ReduceOp::kSum);
          if (!one.canonical()) return;
          engine::ExactSum known;
          for (const auto& [unit, sums] : toy::definition(12)) {
            if (unit != "token") known.add_squares(sums);
          }
          expect(engine::ExactSum(rest).words() == known.words(), one, "all but the table");
        }));
      }
    }
  }
}
