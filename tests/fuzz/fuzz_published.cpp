#include "base/error.h"
#include "planner/import/published/published.h"
#include "tests/fuzz/entries.h"

namespace nqd::fuzz {

// Every row is a config or says why it is none.
void published(std::string_view text) {
  try {
    const planner::PublishedTable table =
        planner::read_published_text(std::string(text), "fuzz.json");
    for (const planner::PublishedRow& row : table.rows) {
      require(!row.skip_reason.empty() || row.measured > 0, "a row without a measurement");
    }
  } catch (const Error& error) {
    require(error.exit_code() == ExitCode::kUsage, error.what());
  }
}

}  // namespace nqd::fuzz
