// How figures look on a report page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::reports {

// Text as HTML content or attribute value.
std::string escape_html(std::string_view text);

std::string fixed(double value, int digits);  // "3.142"; "–" when not finite
// "16 MiB", "1.5 KiB", "812 B": exact multiples without a fraction.
std::string short_bytes(double bytes);
// "6,291,456 B (6 MiB)"; the parenthesis only from 1 KiB up, and when `with_short`.
std::string exact_bytes(double bytes, bool with_short = true);
// The arguments as a shell line that can be pasted.
std::string shell_line(const std::vector<std::string>& argv);
// Whole seconds between two ISO 8601 UTC times; negative when either cannot be read.
std::int64_t seconds_between(const std::string& start, const std::string& end);

}  // namespace nqd::reports
