// Seconds of a step in closed form: per-block roofline, communication by group with its overlap,
// pipeline, optimizer. docs/accuracy.md says how far it is from published measurements.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "planner/estimate/candidate.h"
#include "planner/spec.h"

namespace nqd::planner {

// Who communicates.
enum class CommGroup : std::uint8_t { kDp, kTp, kCp, kEp, kPp, kEmbedding };
inline constexpr int kCommGroups = 6;

struct GroupTime {
  double time_s = 0;     // of a step, busy
  double exposed_s = 0;  // not hidden behind compute
};

struct StepTime {
  bool known = false;  // false: a rate of the cluster is missing; all else is 0
  double step_s = 0;
  // Parts of step_s, which is their sum: the slowest stage's compute, what communication exposes,
  // the pipeline's idle time, the optimizer, and the growth with the number of nodes (stragglers).
  double compute_s = 0;
  double exposed_s = 0;
  double bubble_s = 0;
  double optimizer_s = 0;
  double host_s = 0;  // part of compute_s in which the device waits for kernel launches
  double jitter_s = 0;
  // Of one micro-batch on the slowest stage, for what hides behind it.
  double forward_s = 0;
  double backward_s = 0;  // with what is recomputed
  std::array<GroupTime, kCommGroups> groups;
};

// Built once for a config. Not thread-safe (it remembers block times): one a thread.
class TimeModel {
 public:
  explicit TimeModel(const Config& base);
  ~TimeModel();
  TimeModel(TimeModel&&) noexcept;
  TimeModel& operator=(TimeModel&&) noexcept;

  StepTime step(const Candidate& candidate);

  // Durations of one stage's virtual stage for one micro-batch, for the event simulation that
  // checks the best candidates: forward, backward by input, backward by weight, p2p.
  struct SlotTimes {
    double forward_s = 0;
    double backward_input_s = 0;
    double backward_weight_s = 0;
    double send_s = 0;
  };
  SlotTimes slot(const Candidate& candidate, std::int32_t stage, std::int32_t chunk);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nqd::planner
