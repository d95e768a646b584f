#include "collectives/worker.h"

#include <chrono>
#include <utility>

#include "collectives/waiting.h"

namespace nqd::collectives {

void Work::State::run() {
  const auto start = std::chrono::steady_clock::now();
  std::exception_ptr failure;
  try {
    operation();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const std::lock_guard lock(mutex);
  error = std::move(failure);
  elapsed_s = elapsed.count();
  done = true;
  changed.notify_all();
}

void Work::State::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return done; });
}

Work::Work() = default;
Work::Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
Work::Work(Work&&) noexcept = default;

Work::~Work() {
  if (state_) state_->wait();
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    if (state_) state_->wait();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Work::wait() {
  if (!state_) return;
  const Waiting waiting;
  state_->wait();
  if (!state_->error) return;
  state_->on_error();
  std::rethrow_exception(state_->error);
}

double Work::elapsed_s() const {
  if (!state_) return 0;
  const std::lock_guard lock(state_->mutex);
  return state_->elapsed_s;
}

Worker::Worker() : thread_([this] { loop(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Worker::submit(std::shared_ptr<Work::State> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

bool Worker::busy() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty(); });
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::shared_ptr<Work::State> work = queue_.front();
    lock.unlock();
    work->run();
    lock.lock();
    queue_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace nqd::collectives
