#include "collectives/nccl/stream_calls.h"

#include <utility>

namespace nqd::collectives {

std::shared_ptr<StreamCall> StreamCalls::make(const Stage& stage) {
  oldest();
  measure();
  std::shared_ptr<StreamCall> call;
  if (used_.empty()) {
    call = std::make_shared<StreamCall>();
    call->begin = make_event(device_);
    call->end = make_event(device_);
  } else {
    call = std::move(used_.back());
    used_.pop_back();
  }
  call->stage = stage;
  call->followed = call->complete = false;
  call->begun.reset();
  return call;
}

void StreamCalls::follow(const std::shared_ptr<StreamCall>& call, DeviceStream compute) {
  if (!call->stands) {
    call->stands = make_event(device_);
    call->goes_on = make_event(device_);
  }
  device_.record(call->stands.get(), compute);
  device_.order(compute, call->end.get());
  device_.record(call->goes_on.get(), compute);
  call->followed = true;
  followed_.push_back(call);
}

bool StreamCalls::is_complete(StreamCall& call) {
  call.complete = call.complete || device_.is_complete(call.end.get());
  return call.complete;
}

StreamCall* StreamCalls::oldest() {
  while (!calls_.empty() && is_complete(*calls_.front())) {
    keep(std::exchange(calls_.front(), nullptr));
    calls_.pop_front();
  }
  if (calls_.empty()) return nullptr;
  StreamCall& first = *calls_.front();
  if (!first.begun && device_.is_complete(first.begin.get())) {
    first.begun = std::chrono::steady_clock::now();
  }
  return &first;
}

void StreamCalls::measure() {
  while (!followed_.empty() && device_.is_complete(followed_.front()->goes_on.get())) {
    const StreamCall& call = *followed_.front();
    stood_s_ += device_.elapsed_s(call.stands.get(), call.goes_on.get());
    keep(std::exchange(followed_.front(), nullptr));
    followed_.pop_front();
  }
}

double StreamCalls::take_stood_s() {
  measure();
  return std::exchange(stood_s_, 0.0);
}

// A handle, or the other queue, may still have it: it goes with the last of them.
void StreamCalls::keep(std::shared_ptr<StreamCall> call) {
  if (call.use_count() == 1) used_.push_back(std::move(call));
}

}  // namespace nqd::collectives
