#include "reports/chrome_trace.h"

namespace nqd::reports {

void put_track_name(JsonWriter& json, const char* what, std::size_t thread,
                    const std::string& text) {
  json.begin_object(JsonWriter::Layout::kInline)
      .field("name", what)
      .field("ph", "M")
      .field("pid", 0)
      .field("tid", thread)
      .key("args")
      .begin_object(JsonWriter::Layout::kInline)
      .field("name", text)
      .end()
      .end();
}

}  // namespace nqd::reports
