// The threads that compute for one rank. They start once, with the rank, and wait between calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace nqd::engine {

// `threads` >= 1 workers, of which the caller of run() is worker 0. One run() at a time, from one
// thread; no call allocates.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls task(worker) once for each worker in [0, threads()), all at once, and returns when all
  // have returned. The task must not throw.
  template <typename Task>
  void run(const Task& task) {
    start([](const void* context, int worker) { (*static_cast<const Task*>(context))(worker); },
          &task);
  }

 private:
  using Entry = void (*)(const void* context, int worker);

  void start(Entry entry, const void* context);
  void helper_loop(int worker);

  Entry entry_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<std::uint32_t> round_{0};    // counts the runs; the helpers wait for it to change
  std::atomic<std::uint32_t> running_{0};  // helpers that have not finished this round
  bool stopping_ = false;                  // published by round_
  std::vector<std::thread> helpers_;
};

// The part of `count` items that falls to `worker` of `workers`: contiguous, in order, sizes that
// differ by at most one.
struct WorkerShare {
  std::int64_t begin;
  std::int64_t end;
};
constexpr WorkerShare worker_share(std::int64_t count, int worker, int workers) {
  return {count * worker / workers, count * (worker + 1) / workers};
}

}  // namespace nqd::engine
