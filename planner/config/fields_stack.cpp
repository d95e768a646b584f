#include <array>

#include "planner/config/field_parts.h"

namespace nqd::planner {
namespace {

constexpr std::array kFields = {
    Field{.path = "stack.preset",
          .kind = Kind::kText,
          .slot = [](Draft& d) -> Slot { return &d.config.stack.preset; },
          .doc = "A shipped software stack; the keys beside it override its values."},
};

}  // namespace

std::span<const Field> stack_fields() { return kFields; }

}  // namespace nqd::planner
