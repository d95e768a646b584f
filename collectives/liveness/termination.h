// SIGTERM, held back until it is known whether it is the launcher's answer to a lost peer.
#pragma once

namespace nqd::collectives {

// While one lives, SIGTERM writes to `wake_descriptor` (an eventfd) instead of ending the process.
// A handler that the program installed itself is left alone. One at a time in a process.
class TerminationSignal {
 public:
  explicit TerminationSignal(int wake_descriptor);
  ~TerminationSignal();
  TerminationSignal(const TerminationSignal&) = delete;
  TerminationSignal& operator=(const TerminationSignal&) = delete;

  static bool arrived();
  // Lets the signal end the process as it would have.
  static void deliver();

 private:
  bool installed_ = false;
};

}  // namespace nqd::collectives
