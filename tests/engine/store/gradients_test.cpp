// What a step's gradients add up to, what they cost in memory, and what was sent.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <string>

#include "collectives/cost.h"
#include "planner/layout/state_buffers.h"
#include "planner/layout/state_traffic.h"
#include "tests/engine/store/toy.h"

using namespace nqd;
using collectives::Communicator;
using collectives::Numerics;
using planner::Engine;
using toy::Case;
using toy::expect;

namespace {

// By definition, whatever the mesh.
using Sums = std::map<std::string, std::vector<float>>;

const Sums& definition(std::int64_t leaves) {
  static std::map<std::int64_t, Sums> known;
  Sums& sums = known[leaves];
  if (!sums.empty()) return sums;
  for (const planner::LocalUnit& unit : toy::units()) {
    for (std::int64_t k = 0; k < unit.elements; ++k) {
      sums[unit.name].push_back(toy::tree_sum(toy::leaf, unit.name, k, 0, leaves));
    }
  }
  return sums;
}

void check_gradients(engine::UnitStore& store, const Case& one, const Sums& sums) {
  std::int64_t seen = 0;
  toy::for_each_gradient(store, [&](const planner::LocalUnit& unit, std::int64_t k, float found) {
    const float expected = sums.at(unit.name)[static_cast<std::size_t>(k)];
    // Leaves are below 2^10; fast sums differ by a few roundings of partial sums.
    const bool equal = one.canonical() ? std::bit_cast<std::uint32_t>(found) ==
                                             std::bit_cast<std::uint32_t>(expected)
                                       : std::abs(found - expected) <= 32 * 1024 * 0x1p-24F;
    if (!equal) {
      expect(false, one,
             unit.name + "[" + std::to_string(k) + "] is " + std::to_string(found) + ", not " +
                 std::to_string(expected));
    }
    ++seen;
  });
  const bool all = store.shape().parts() == 1;
  if (all) expect(seen == 57 + 1 + 158 + 2511 + 13 + 104, one, "elements that ddp updates");
}

void check_memory(const MemoryLedger& ledger, const engine::UnitStore& store, const Case& one) {
  std::array<std::uint64_t, static_cast<std::size_t>(MemoryTag::kCount)> listed{};
  for (const planner::StateBuffer& buffer :
       planner::state_buffers(store.shape(), store.units(), store.rank())) {
    listed[static_cast<std::size_t>(buffer.tag)] +=
        static_cast<std::uint64_t>(buffer.bytes * buffer.count);
  }
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const auto tag = static_cast<MemoryTag>(i);
    expect(ledger.peak_bytes(tag) == listed[i], one,
           std::string(name(tag)) + " peaks at " + std::to_string(ledger.peak_bytes(tag)) +
               " bytes, and the list says " + std::to_string(listed[i]));
  }
}

void add_counts(const Communicator* group,
                std::map<collectives::TrafficKey, collectives::TrafficCount>& all) {
  if (group == nullptr) return;
  for (const auto& [key, count] : group->traffic()) all[key] = count;
}

void check_traffic(const toy::Groups& groups, const engine::UnitStore& store, const Case& one,
                   bool apart) {
  std::map<collectives::TrafficKey, collectives::TrafficCount> counted;
  add_counts(&groups.dp(), counted);
  add_counts(groups.replicas(), counted);
  std::erase_if(counted, [](const auto& entry) { return entry.second.calls == 0; });
  planner::StateTrafficOptions options;
  options.dp_reaches_memory = !apart;
  options.replicas_reach_memory = !apart;
  // The test gathers every unit once.
  options.gathers.assign(store.units().size(), 1);
  const auto expected = planner::state_traffic(store.shape(), store.units(), store.rank(), options);
  expect(
      expected.size() == counted.size(), one,
      std::to_string(counted.size()) + " kinds of calls, not " + std::to_string(expected.size()));
  for (const planner::StateTraffic& row : expected) {
    const auto found = counted.find({row.group, row.collective});
    expect(found != counted.end(), one,
           row.group + " never calls " + std::string(name(row.collective)));
    const collectives::TrafficCount& count = found->second;
    expect(count.calls == row.calls && count.messages == row.messages &&
               count.bytes_sent == row.bytes_sent,
           one,
           row.group + " " + std::string(name(row.collective)) + ": " +
               std::to_string(count.calls) + " calls, " + std::to_string(count.messages) +
               " messages, " + std::to_string(count.bytes_sent) + " bytes; expected " +
               std::to_string(row.calls) + ", " + std::to_string(row.messages) + ", " +
               std::to_string(row.bytes_sent));
  }
}

void check_case(const Case& one, bool apart = false) {
  const Sums& sums = definition(std::int64_t{one.dp} * one.micro_batches);
  toy::run(
      one,
      [&](Communicator& world) {
        MemoryLedger ledger;
        const toy::Groups groups(world, one);
        engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, &ledger);
        store.initialize(toy::fill);
        toy::run_gradients(store);
        check_gradients(store, one, sums);
        toy::update(store);
        toy::all_weights(store);
        check_traffic(groups, store, one, apart);
        // Nothing of a step is left in the next.
        toy::run_gradients(store);
        check_gradients(store, one, sums);
        check_memory(ledger, store, one);
      },
      apart);
}

}  // namespace

TEST_CASE("canonical: the tree over all leaves, to the bit, on every mesh") {
  for (const Case& one : toy::all_cases(Numerics::kCanonical)) {
    CHECK_NOTHROW(check_case(one));
  }
}

TEST_CASE("fast: the same sums up to rounding") {
  for (const Case& one : toy::all_cases(Numerics::kFast)) {
    CHECK_NOTHROW(check_case(one));
  }
}

TEST_CASE("ranks that share no memory: the same bits in messages") {
  for (const Numerics numerics : {Numerics::kCanonical, Numerics::kFast}) {
    for (const Case& one :
         {Case{Engine::kDdp, 4, 1, 2, numerics}, Case{Engine::kDdp, 3, 1, 3, numerics},
          Case{Engine::kZero1, 4, 1, 2, numerics}, Case{Engine::kZero1, 3, 1, 3, numerics},
          Case{Engine::kZero2, 3, 1, 2, numerics}, Case{Engine::kZero3, 4, 1, 3, numerics},
          Case{Engine::kHsdp, 4, 2, 2, numerics}, Case{Engine::kHsdp, 6, 3, 1, numerics}}) {
      CHECK_NOTHROW(check_case(one, true));
    }
  }
}

TEST_CASE("a bucket one element short, exactly full, and one element long") {
  // "last" and "head" together: 13 + 3 + 101 elements of 4 bytes.
  for (const std::int64_t bytes : {4 * 117 - 4, 4 * 117, 4 * 117 + 4, 4, 1 << 20}) {
    Case one{Engine::kDdp, 3, 1, 2, Numerics::kCanonical};
    one.bucket_bytes = bytes;
    CHECK_NOTHROW(check_case(one));
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
        engine::UnitStore store(toy::shape_of(one),
                                {toy::unit(planner::UnitRole::kLayer, "layer", {5})},
                                groups.groups(), 0, nullptr);
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
      for (const auto& [unit, sums] : definition(std::int64_t{dp} * 2)) expected.add_squares(sums);
      CHECK_NOTHROW(toy::run(one, [&](Communicator& world) {
        const toy::Groups groups(world, one);
        engine::UnitStore store(toy::shape_of(one), toy::units(), groups.groups(), 0, nullptr);
        toy::run_gradients(store);
        engine::ExactSum::Words words = store.squared_gradients().words();
        const auto bytes = std::as_writable_bytes(std::span(words));
        world.all_reduce(bytes, bytes, DType::kInt64, collectives::ReduceOp::kSum);
        expect(engine::ExactSum(words).words() == expected.words(), one, "sum of squares");
        // Of tensors that all tp ranks hold, only the first counts.
        engine::UnitStore other(toy::shape_of(one), toy::units(), groups.groups(), 1, nullptr);
        toy::run_gradients(other);
        expect(other.squared_gradients().value() == 0, one, "replicas over tp are counted twice");
      }));
    }
  }
}
