// What to do about a write that failed.
#pragma once

#include <string>

namespace nqd {

// A hint for the errno of it.
std::string write_hint(int error);

}  // namespace nqd
