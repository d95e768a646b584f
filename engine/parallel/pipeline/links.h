// One-way channels between the stages of a pipeline: sending goes on beside computing, and a
// receive waits for nothing but its own message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "collectives/communicator.h"
#include "planner/schedule/schedule.h"

namespace nqd::engine {

// What travels: activations to the chunk after, gradients to the chunk before.
enum class Direction : std::uint8_t { kForward, kBackward };

// Nobody waits for ever, though a send of a long message ends with its receive. A link is one way
// and in order, and has a communicator, with its own worker or stream, to itself. So a receive
// waits for its own message alone: for what the sender computes before it, and for earlier messages
// of the link, which its receiver has taken before. A send holds up nothing but the next use of its
// buffer, which the schedule puts behind what only the receiver's answer makes possible (for
// outputs) or which was planned for (chunk_flights, for gradients). What is left is the order of
// the schedule, which has no cycle. On streams that holds on the host too: no call waits there for
// another rank, since connections are made here, link by link in one order on all ranks.
class PipelineLinks {
 public:
  // Collective over `pp`, the ranks of one pipeline in the order of stages. A link is a
  // communicator of its two ends (group "pp"), made for every pair of stages that neighbouring
  // chunks lie on.
  PipelineLinks(collectives::Communicator& pp, const planner::ScheduleSpec& schedule);

  // Starts to send to `stage`; `data` must stay until the handle has been waited for. Messages of
  // one link arrive in the order in which they were sent.
  collectives::Work send(Direction direction, std::int32_t stage, std::span<const std::byte> data);
  // Waits for the next message of `stage`. Throws as Communicator::receive does.
  void receive(Direction direction, std::int32_t stage, std::span<std::byte> data);

  // Sent by this rank over all links since the last reset.
  collectives::TrafficCount traffic() const;

 private:
  struct Key {
    Direction direction;
    std::int32_t from, to;
    auto operator<=>(const Key&) const = default;
  };
  collectives::Communicator& link(Direction direction, std::int32_t from, std::int32_t to);

  std::int32_t own_;
  std::map<Key, std::unique_ptr<collectives::Communicator>> links_;
};

}  // namespace nqd::engine
