#include "tests/fuzz/entries.h"
#include "tests/fuzz/import_entry.h"

namespace nqd::fuzz {

void torchtitan(std::string_view text) {
  import_anything(planner::ForeignFormat::kTorchTitan, text);
}

}  // namespace nqd::fuzz
