#include "tests/fuzz/entries.h"
#include "tests/fuzz/import_entry.h"

namespace nqd::fuzz {

void hf(std::string_view text) { import_anything(planner::ForeignFormat::kHuggingFace, text); }

}  // namespace nqd::fuzz
