// What a person sees while a run goes on: one updating line on a terminal, else a line now and
// then.
#pragma once

#include <chrono>
#include <cstdint>

#include "engine/records.h"

namespace nqd::cli {

class Progress {
 public:
  // `interval`: the least time between two lines when stderr is not a terminal.
  Progress(std::int64_t steps, std::chrono::milliseconds interval);
  // Ends an open terminal line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const engine::StepRecord& record);
  void evaluation(const engine::EvalRecord& record);

 private:
  using Clock = std::chrono::steady_clock;
  void end_line();

  std::int64_t steps_;
  std::chrono::milliseconds interval_;
  bool terminal_;
  bool line_open_ = false;
  double tokens_per_s_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace nqd::cli
