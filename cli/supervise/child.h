// A command as a child with a process group of its own. What it leaves behind when it ends is
// killed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace nqd::cli {

class Child {
 public:
  // Starts it. Throws Error (kUsage, NQD2001) when the program cannot be run.
  explicit Child(const std::vector<std::string>& command);
  // Kills the group if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // To all processes of the group.
  void signal(int number) const;
  // Its exit code once it has ended, 128 + the signal that ended it.
  std::optional<int> ended();

 private:
  pid_t pid_ = -1;
  std::optional<int> code_;
};

}  // namespace nqd::cli
