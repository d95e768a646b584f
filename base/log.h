// Messages for people, on stderr. Data never goes here.
#pragma once

#include <string>
#include <string_view>

namespace nqd::log {

// A prefix such as "rank 1" for the calling thread (ranks may be threads); empty removes it.
void set_thread_prefix(std::string prefix);

// One whole line each, written with a single call so that lines of several ranks do not mix.
void info(std::string_view text);
void warn(std::string_view text);
void error(std::string_view text);

// True when stderr is a terminal: only then progress bars and colour.
bool is_terminal();

}  // namespace nqd::log
