#include "tests/cases/store_cases.h"

#include <array>
#include <bit>
#include <cmath>
#include <mutex>

#include "collectives/cost.h"
#include "engine/device/cpu_device.h"
#include "planner/layout/state_buffers.h"
#include "planner/layout/state_traffic.h"

namespace nqd::toy {
namespace {

using collectives::Communicator;

void check_gradients(engine::UnitStore& store, const Case& one, const Sums& sums) {
  std::int64_t seen = 0;
  for_each_gradient(store, [&](const planner::LocalUnit& unit, std::int64_t k, float found) {
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

void check_traffic(const Groups& groups, const engine::UnitStore& store, const Case& one) {
  std::map<collectives::TrafficKey, collectives::TrafficCount> counted;
  add_counts(&groups.dp(), counted);
  add_counts(groups.replicas(), counted);
  std::erase_if(counted, [](const auto& entry) { return entry.second.calls == 0; });
  planner::StateTrafficOptions options;
  options.dp_reaches_memory = groups.dp().shares_memory();
  options.replicas_reach_memory =
      groups.replicas() == nullptr || groups.replicas()->shares_memory();
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

}  // namespace

const Sums& definition(std::int64_t leaves) {
  // Asked for by every rank; what is known stays where it is.
  static std::mutex mutex;
  static std::map<std::int64_t, Sums> known;
  const std::lock_guard lock(mutex);
  Sums& sums = known[leaves];
  if (!sums.empty()) return sums;
  for (const planner::LocalUnit& unit : units()) {
    for (std::int64_t k = 0; k < unit.elements; ++k) {
      sums[unit.name].push_back(tree_sum(leaf, unit.name, k, 0, leaves));
    }
  }
  return sums;
}

void check_case(Communicator& world, const Case& one) {
  const Sums& sums = definition(std::int64_t{one.dp} * one.micro_batches);
  MemoryLedger ledger;
  const Groups groups(world, one);
  engine::CpuDevice device;
  engine::UnitStore store(shape_of(one), units(), groups.groups(), 0, &ledger, device);
  store.initialize(fill);
  run_gradients(store);
  check_gradients(store, one, sums);
  update(store);
  all_weights(store);
  check_traffic(groups, store, one);
  // Nothing of a step is left in the next.
  run_gradients(store);
  check_gradients(store, one, sums);
  check_memory(ledger, store, one);
}

}  // namespace nqd::toy
