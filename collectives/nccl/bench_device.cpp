#include "collectives/nccl/bench_device.h"

#include <utility>

namespace nqd::collectives {

NcclBenchDevice::Vector::Vector(NcclCommunicator& world, std::size_t bytes, bool registered)
    : size_(bytes) {
  if (bytes == 0) return;
  if (registered) {
    known_ = world.allocate(bytes);
  } else {
    plain_.emplace(world.session().device(), DeviceBlock::Kind::kDevice);
    plain_->take(bytes);
  }
}

std::span<std::byte> NcclBenchDevice::Vector::bytes() {
  if (size_ == 0) return {};
  return known_ ? known_->bytes() : plain_->take(size_);
}

NcclBenchDevice::NcclBenchDevice(NcclCommunicator& world, bool graph)
    : device_(world.session().device()),
      twin_(world.blocking_twin()),
      graph_(graph),
      mark_(make_event(device_)) {}

void NcclBenchDevice::allocate(std::size_t full_bytes, std::size_t second_bytes, bool registered) {
  // The old vectors go first: both need not fit at once.
  full_ = {};
  second_ = {};
  full_ = Vector(*twin_, full_bytes, registered);
  second_ = Vector(*twin_, second_bytes, registered);
}

void NcclBenchDevice::finish() {
  device_.record(mark_.get(), stream());
  twin_->session().wait(mark_.get(), {twin_->group(), Collective::kBarrier, 0, 0, true});
}

void NcclBenchDevice::copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (to.empty()) return;
  twin_->session().enter();
  device_.copy(to.data(), from.data(), from.size(), stream());
  finish();
}

void NcclBenchDevice::put(const BenchSteps& steps) {
  for (const BenchStep& step : steps) {
    if (step.is_message) {
      twin_->put_exchange(step.call.in, step.to, step.call.out, step.from, stream());
    } else {
      twin_->put(step.call, stream());
    }
  }
}

void NcclBenchDevice::run(const BenchSteps& steps) {
  put(steps);
  finish();
}

OwnedGraph NcclBenchDevice::captured(const BenchSteps& steps) {
  device_.begin_capture(stream());
  try {
    put(steps);
  } catch (...) {
    // A stream that is still recorded can neither be waited for nor destroyed.
    try {
      const OwnedGraph broken_off(device_, device_.end_capture(stream()));
    } catch (const Error&) {
    }
    throw;
  }
  return {device_, device_.end_capture(stream())};
}

std::vector<double> NcclBenchDevice::time(std::size_t calls,
                                          const std::function<BenchSteps()>& next) {
  twin_->session().enter();
  OwnedGraph graph;
  std::vector<OwnedEvent> marks;
  for (std::size_t i = 0; i <= calls; ++i) marks.push_back(make_event(device_));
  if (graph_) {
    graph = captured(next());
    // The first launch uploads the graph.
    device_.launch(graph.get(), stream());
    finish();
  }
  device_.record(marks[0].get(), stream());
  for (std::size_t i = 0; i < calls; ++i) {
    if (graph_) {
      device_.launch(graph.get(), stream());
    } else {
      put(next());
    }
    device_.record(marks[i + 1].get(), stream());
  }
  finish();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < calls; ++i) {
    seconds.push_back(device_.elapsed_s(marks[i].get(), marks[i + 1].get()));
  }
  return seconds;
}

std::optional<double> NcclBenchDevice::estimate_s(const BenchSteps& steps) {
  // Of several calls in a group, and of messages, NCCL tells no sum.
  if (steps.size() != 1 || steps[0].is_message) return std::nullopt;
  const CollectiveCall& call = steps[0].call;
  const auto is_one_call = [&](std::size_t bytes) {
    return bytes / size_bytes(call.type) % static_cast<std::size_t>(twin_->size()) == 0;
  };
  switch (call.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return twin_->estimate_s(call);
    case Collective::kAllGather:
      return is_one_call(call.out.size()) ? twin_->estimate_s(call) : std::nullopt;
    case Collective::kReduceScatter:
      return is_one_call(call.in.size()) ? twin_->estimate_s(call) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace nqd::collectives
