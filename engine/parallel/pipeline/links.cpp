#include "engine/parallel/pipeline/links.h"

#include <set>

namespace nqd::engine {
namespace {

using collectives::Communicator;

constexpr int kSender = 0;
constexpr int kReceiver = 1;

}  // namespace

PipelineLinks::PipelineLinks(Communicator& pp, const planner::ScheduleSpec& schedule)
    : own_(pp.rank()) {
  std::set<Key> keys;
  for (std::int64_t chunk = 0; chunk + 1 < planner::chunk_count(schedule); ++chunk) {
    const auto here = static_cast<std::int32_t>(planner::stage_of_chunk(schedule, chunk));
    const auto next = static_cast<std::int32_t>(planner::stage_of_chunk(schedule, chunk + 1));
    if (here == next) continue;
    keys.insert({Direction::kForward, here, next});
    keys.insert({Direction::kBackward, next, here});
  }
  for (const Key& key : keys) {
    const bool sends = key.from == own_;
    const int color = sends || key.to == own_ ? 0 : -1;
    auto ends = pp.split(color, sends ? kSender : kReceiver, pp.group());
    if (!ends) continue;
    ends->connect();
    links_.emplace(key, std::move(ends));
  }
}

Communicator& PipelineLinks::link(Direction direction, std::int32_t from, std::int32_t to) {
  return *links_.at({direction, from, to});
}

collectives::Work PipelineLinks::send(Direction direction, std::int32_t stage,
                                      std::span<const std::byte> data) {
  return link(direction, own_, stage).send_async(data, kReceiver);
}

void PipelineLinks::receive(Direction direction, std::int32_t stage, std::span<std::byte> data) {
  link(direction, stage, own_).receive(data, kSender);
}

collectives::TrafficCount PipelineLinks::traffic() const {
  collectives::TrafficCount total;
  for (const auto& [key, ends] : links_) {
    for (const auto& [of, count] : ends->traffic()) {
      total.calls += key.from == own_ ? count.calls : 0;
      total.messages += count.messages;
      total.bytes_sent += count.bytes_sent;
    }
  }
  return total;
}

}  // namespace nqd::engine
