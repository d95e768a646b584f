// How long a thread has stood in communication.
#pragma once

#include <chrono>

namespace nqd::collectives {

// Seconds that the calling thread has spent, since it began, in blocking calls of its communicators
// and in waits for calls that it started: what it did not work for itself.
double waited_s();

// Counts the calling thread's time until it ends as waited; one inside another counts once.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace nqd::collectives
