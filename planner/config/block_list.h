// model.blocks: a sequence of mappings, the one value of a config that is no scalar and no list of
// scalars.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/field.h"
#include "planner/config/source.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {

// The keys of one block as fields "model.blocks.KEY"; their slots only tell the types.
std::span<const Field> block_fields();

// Nothing, and one diagnostic in `problem`, when the list does not fit: NQD1008 no list of
// mappings, NQD1006 unknown key, NQD1014 name or parameters missing, NQD1033 more input than saved
// bytes, or what read_value finds in a key. Positions are those of the block's own keys.
std::optional<std::vector<CustomBlock>> read_block_list(const YamlNode& node, const Source& source,
                                                        Diagnostic& problem);

// As one line of YAML that reads back equal.
std::string block_list_text(const std::vector<CustomBlock>& blocks);

}  // namespace nqd::planner
