#include "tests/fuzz/entries.h"
#include "tests/fuzz/import_entry.h"

namespace nqd::fuzz {

void megatron(std::string_view text) { import_anything(planner::ForeignFormat::kMegatron, text); }

}  // namespace nqd::fuzz
