// A command as a child whose output goes to a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nqd::cli {

// Runs it to its end, with stdout and stderr in `output` (a new file) and `variables` (NAME=VALUE)
// beside this process's environment, before which they count. A signal that asks this process to
// stop (cli/stop_signals.h) is SIGTERM to the child. Returns its exit code, 128 + the signal that
// ended it. Throws Error (kEnvironment, NQD3008) when it cannot be started.
int run_to_file(std::vector<std::string> words, const std::filesystem::path& output,
                std::vector<std::string> variables);

// The last 400 bytes of what a child said.
std::string last_lines(const std::filesystem::path& output);

}  // namespace nqd::cli
