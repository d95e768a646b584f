#include "tests/fuzz/entries.h"
#include "tests/fuzz/import_entry.h"

namespace nqd::fuzz {

void deepspeed(std::string_view text) { import_anything(planner::ForeignFormat::kDeepSpeed, text); }

}  // namespace nqd::fuzz
