// One YAML value to the type and range of its field.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "planner/config/field.h"
#include "planner/config/source.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {

// Nothing, and one diagnostic in `problem`, when the value does not fit: NQD1008 wrong type,
// NQD1009 out of range, NQD1010 not among the choices, NQD1013 not a quantity, NQD1017 not finite,
// NQD1022 a YAML 1.1 boolean, NQD1023 a whole number written as a float, NQD1029 no value.
std::optional<Value> read_value(const Field& field, const YamlNode& node, const Source& source,
                                Diagnostic& problem);

// `string "8"`, `integer 8`, `a mapping`: what a person wrote.
std::string describe(const YamlNode& node);

// Decimal digits with an optional sign, no leading zeros; nothing for other text or beyond 63 bits.
std::optional<std::int64_t> parse_integer(std::string_view text);
// Any finite decimal number; nothing for other text. Infinite or NaN text gives that value.
std::optional<double> parse_number(std::string_view text);
// The numeric text of a field kind with units; nothing when it is not one.
std::optional<double> parse_quantity(Kind kind, std::string_view text);

}  // namespace nqd::planner
