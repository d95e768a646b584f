// The channel between two ranks of the shm backend, with threads in the place of processes.
#include "collectives/shm/channel.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <thread>

#include "collectives/shared/phase.h"

namespace nqd::collectives::shm {
namespace {

void no_check(double) {}

TEST_CASE("cells arrive in order, whole, and a full channel holds the sender back") {
  constexpr std::uint32_t kMessages = 2000;
  const auto channel = std::make_unique<Channel>();
  Phase to_receiver;
  Phase to_sender;
  std::jthread sender([&] {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      for (;;) {
        const std::uint32_t seen = to_sender.count();
        Cell* const cell = channel->free_cell();
        if (cell == nullptr) {
          // Only the receiver's answer to a full channel ends this wait.
          to_sender.await(seen + 1, 0, no_check);
          continue;
        }
        cell->tag = static_cast<std::int32_t>(i);
        std::memset(cell->data.data(), static_cast<int>(i % 251), 512);
        channel->push();
        to_receiver.ring();
        break;
      }
    }
  });
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < kMessages;) {
    const std::uint32_t seen = to_receiver.count();
    const Cell* const cell = channel->front();
    if (cell == nullptr) {
      to_receiver.await(seen + 1, 0, no_check);
      continue;
    }
    wrong += cell->tag != static_cast<std::int32_t>(i);
    wrong += cell->data[0] != static_cast<std::byte>(i % 251);
    wrong += cell->data[511] != static_cast<std::byte>(i % 251);
    if (channel->pop()) to_sender.ring();
    ++i;
  }
  sender.join();
  CHECK(wrong == 0);
  CHECK(channel->front() == nullptr);
  CHECK(channel->has_taken(channel->pushed()));
}

TEST_CASE("a full channel has no free cell until one is taken") {
  const auto channel = std::make_unique<Channel>();
  for (std::uint32_t i = 0; i < kCells; ++i) {
    REQUIRE(channel->free_cell() != nullptr);
    channel->push();
  }
  CHECK_FALSE(channel->has_taken(1));
  CHECK(channel->free_cell() == nullptr);
  CHECK(channel->pop());
  CHECK(channel->has_taken(1));
  CHECK_FALSE(channel->has_taken(2));
  CHECK(channel->free_cell() != nullptr);
  // Nobody has asked since.
  CHECK_FALSE(channel->pop());
}

}  // namespace
}  // namespace nqd::collectives::shm
