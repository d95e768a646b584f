// Ends a run that comes no further although no rank waits for another: what no deadline of a wait
// notices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace nqd::engine {

struct StepWatchOptions {
  double deadline_s = 60;      // of any wait for another rank
  double expected_step_s = 0;  // the plan's; 0: not known
  // Called with the error before the process of ranks that are threads is ended.
  std::function<void(const Error&)> last_words{};
};

// One a rank. A step may take max(deadline, 20 · the median of the last steps), and what is done
// for the first time (the first step, an evaluation) 20 · max(deadline, the plan's step): a few
// seconds more, so that a wait for the rank that hangs, which can name it, ends first. Time in
// which the process was stopped does not count.
class StepWatch {
 public:
  StepWatch(int rank, StepWatchOptions options);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  // `what` begins: "step 12", "the evaluation after step 12".
  void begin(const std::string& what, bool is_step);
  // It is done.
  void end();

 private:
  double limit_s() const;
  void loop();

  const StepWatchOptions options_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool running_ = false;
  bool is_step_ = false;
  std::string what_;
  double elapsed_ = 0;  // of what runs, without what the process was stopped
  std::chrono::steady_clock::time_point start_;
  std::vector<double> steps_;  // seconds; the last few, a ring
  std::size_t next_ = 0;
  std::thread thread_;
};

}  // namespace nqd::engine
