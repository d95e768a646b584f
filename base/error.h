// The error type of every library in this tree. A library throws; only cli/main.cpp turns an error
// into a process exit status.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace nqd {

// The exit-code contract of every command.
enum class ExitCode : int {
  kOk = 0,
  kNo = 1,           // the answer is no: a rule violated, does not fit, parity or audit failed
  kUsage = 2,        // usage, or unreadable or malformed input
  kEnvironment = 3,  // missing device, wrong world size, launcher disagreement
  kFault = 4,        // a run-time fault: a peer lost, time-out, disk full, non-finite loss
  kStopped = 75,     // stopped on request after a checkpoint; resume me
};

// `code` is a stable name such as "NQD3001" that `nqd explain` knows (base/codes.h); `hint` is a
// sentence that says what to do, or empty.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, std::string code, const std::string& message, std::string hint = {})
      : std::runtime_error(message),
        exit_code_(exit_code),
        code_(std::move(code)),
        hint_(std::move(hint)) {}

  ExitCode exit_code() const { return exit_code_; }
  const std::string& code() const { return code_; }
  const std::string& hint() const { return hint_; }

  // A failure that all ranks share is printed by one of them: the others carry a quiet copy.
  bool quiet() const { return quiet_; }
  void set_quiet(bool quiet) { quiet_ = quiet; }

 private:
  ExitCode exit_code_;
  std::string code_;
  std::string hint_;
  bool quiet_ = false;
};

}  // namespace nqd
