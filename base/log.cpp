#include "base/log.h"

#include <unistd.h>

#include <utility>

namespace nqd::log {
namespace {

thread_local std::string t_prefix;

void write_line(std::string_view level, std::string_view text) {
  std::string line = "nqd";
  if (!t_prefix.empty()) line += " [" + t_prefix + "]";
  line += ": ";
  line += level;
  line += text;
  line += '\n';
  // A lost diagnostic must not become a second fault, so the result is not used.
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_thread_prefix(std::string prefix) { t_prefix = std::move(prefix); }
void info(std::string_view text) { write_line("", text); }
void warn(std::string_view text) { write_line("warning: ", text); }
void error(std::string_view text) { write_line("error: ", text); }
bool is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

}  // namespace nqd::log
