// The thread that runs a communicator's asynchronous operations in issue order.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "collectives/communicator.h"

namespace nqd::collectives {

// One operation: its outcome, shared by the worker that sets it and the Work that waits for it. A
// backend whose operations run without a worker has a state of its own, whose wait() sets the
// outcome.
struct Work::State {
  virtual ~State() = default;
  std::function<void()> operation;
  std::function<void()> on_error;  // run in wait(), before the error is rethrown
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;
  double elapsed_s = 0;

  void run();           // on the worker
  virtual void wait();  // on the caller; never throws the error
};

class Worker {
 public:
  Worker();
  // Finishes what was submitted.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void submit(std::shared_ptr<Work::State> work);
  // False: everything submitted is complete, and its effects are visible to the caller.
  bool busy() const;
  // Returns when not busy.
  void drain();

 private:
  void loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Work::State>> queue_;  // the front is running
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace nqd::collectives
