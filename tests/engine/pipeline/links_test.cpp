#include "engine/parallel/pipeline/links.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "collectives/world.h"

using namespace nqd;
using collectives::Communicator;
using engine::Direction;
using engine::PipelineLinks;

namespace {

std::vector<std::int32_t> message(std::int32_t stage, std::int32_t index) {
  std::vector<std::int32_t> values(100'000);
  std::iota(values.begin(), values.end(), 1'000'000 * stage + index);
  return values;
}

}  // namespace

TEST_CASE("messages of every link arrive in order while their senders go on") {
  constexpr int kStages = 4;
  constexpr std::int32_t kMessages = 3;
  const planner::ScheduleSpec schedule{planner::Schedule::kInterleaved, kStages, 4, 2};
  collectives::run_threads(kStages, {}, [&](Communicator& world) {
    PipelineLinks links(world, schedule);
    const auto own = static_cast<std::int32_t>(world.rank());
    const std::int32_t next = (own + 1) % kStages;
    const std::int32_t before = (own + kStages - 1) % kStages;
    std::vector<std::vector<std::int32_t>> sent;
    for (std::int32_t i = 0; i < kMessages; ++i) sent.push_back(message(own, i));
    std::vector<collectives::Work> pending;
    // All ranks send to both neighbours before any of them receives.
    for (const auto& values : sent) {
      pending.push_back(links.send(Direction::kForward, next, std::as_bytes(std::span(values))));
      pending.push_back(links.send(Direction::kBackward, before, std::as_bytes(std::span(values))));
    }
    std::vector<std::int32_t> received(sent.front().size());
    for (std::int32_t i = 0; i < kMessages; ++i) {
      links.receive(Direction::kBackward, next, std::as_writable_bytes(std::span(received)));
      CHECK(received == message(next, i));
      links.receive(Direction::kForward, before, std::as_writable_bytes(std::span(received)));
      CHECK(received == message(before, i));
    }
    for (auto& work : pending) work.wait();
    CHECK(links.traffic().messages == 2 * kMessages);
    CHECK(links.traffic().bytes_sent == 2 * kMessages * sent.front().size() * 4);
  });
}

TEST_CASE("a started call of send_recv is refused") {
  collectives::run_threads(1, {}, [](Communicator& world) {
    collectives::CollectiveCall call;
    call.collective = collectives::Collective::kSendRecv;
    CHECK_THROWS_AS(world.start(call, collectives::Algorithm::kAuto), Error);
  });
}
