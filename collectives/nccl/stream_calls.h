// The calls of one communicator that are on its stream: which of them the device has come to, and
// how long the compute stream stood still for them.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/device/device_handles.h"
#include "collectives/stage.h"

namespace nqd::collectives {

// Marks of one call. Those of the compute stream are recorded where it was put behind the call.
struct StreamCall {
  Stage stage;
  OwnedEvent begin;  // on the communication stream
  OwnedEvent end;
  OwnedEvent stands;  // on the compute stream, before it waits for `end`, and after
  OwnedEvent goes_on;
  bool followed = false;  // the compute stream is behind it
  bool complete = false;  // as the host knows
  // When the host saw that the device had come to it.
  std::optional<std::chrono::steady_clock::time_point> begun;
};

// In the order of issue, which is the order of the stream. All of it throws what
// DeviceApi::is_complete throws.
class StreamCalls {
 public:
  explicit StreamCalls(DeviceApi& device) : device_(device) {}

  // A call that nobody uses any more, or a new one. Not in the queue yet.
  std::shared_ptr<StreamCall> make(const Stage& stage);
  // It is on the stream, `end` is recorded.
  void put(std::shared_ptr<StreamCall> call) { calls_.push_back(std::move(call)); }
  // The compute stream is behind it.
  void follow(const std::shared_ptr<StreamCall>& call, DeviceStream compute);

  bool is_complete(StreamCall& call);
  // Forgets what is complete. The oldest call that is not, null where there is none; it knows since
  // when it is under way if the device has come to it.
  StreamCall* oldest();
  // Seconds that the compute stream stood still for calls, from one take to the next: of waits that
  // the device has passed.
  double take_stood_s();

 private:
  void measure();
  void keep(std::shared_ptr<StreamCall> call);

  DeviceApi& device_;
  std::deque<std::shared_ptr<StreamCall>> calls_;
  std::deque<std::shared_ptr<StreamCall>> followed_;
  std::vector<std::shared_ptr<StreamCall>> used_;
  double stood_s_ = 0;
};

}  // namespace nqd::collectives
