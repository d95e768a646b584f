// Pieces of the trace format that Perfetto and chrome://tracing open.
#pragma once

#include <cstddef>
#include <string>

#include "reports/json_writer.h"

namespace nqd::reports {

// A metadata event of process 0: `what` is "process_name" or "thread_name", `text` what is shown
// for track `thread`.
void put_track_name(JsonWriter& json, const char* what, std::size_t thread,
                    const std::string& text);

}  // namespace nqd::reports
