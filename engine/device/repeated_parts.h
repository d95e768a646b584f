// What a device keeps of the parts of a step that come again (Device::repeat).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "engine/device/device.h"

namespace nqd::engine {

// A Recording is what is kept of one part.
template <typename Recording>
class RepeatedParts {
 public:
  // Device::repeat: runs body() in a part's first call, records it in the second and starts the
  // recording from then on. record(body) returns the Recording of what body() asks for, none of
  // which runs; start(recording) asks for it. memory() is a number that changes when memory that
  // recordings use is gone: they are then forgotten. What any of them throws is passed on, and the
  // part is as it was.
  template <typename Memory, typename Record, typename Start>
  bool repeat(const Repetition& which, const std::function<void()>& body, const Memory& memory,
              const Record& record, const Start& start) {
    Part& part = parts_[which.part];
    if (part.varying != which.varying || part.memory != memory()) part = {};
    if (!part.has_run) {
      body();
      part.has_run = true;
      part.varying = which.varying;
      part.memory = memory();
      return true;
    }
    const bool is_new = !part.recording;
    if (is_new) part.recording.emplace(record(body));
    start(*part.recording);
    return is_new;
  }

 private:
  struct Part {
    bool has_run = false;
    decltype(Repetition::varying) varying{};
    std::uint64_t memory = 0;
    std::optional<Recording> recording;
  };
  std::map<std::int64_t, Part> parts_;
};

}  // namespace nqd::engine
