#include "planner/config/block_list.h"

#include <algorithm>
#include <array>
#include <utility>

#include "planner/config/field_parts.h"
#include "planner/config/read_value.h"
#include "planner/config/suggest.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kPath = "model.blocks";

Slot text_slot(Draft& draft) { return &draft.config.model.preset; }
Slot integer_slot(Draft& draft) { return &draft.config.model.layers; }
Slot number_slot(Draft& draft) { return &draft.config.model.parameters; }

constexpr std::array kFields = {
    Field{.path = "model.blocks.name",
          .kind = Kind::kText,
          .slot = text_slot,
          .fallback = "required",
          .doc = "What the block is called."},
    Field{.path = "model.blocks.count",
          .slot = integer_slot,
          .range = whole(1, 1 << 20),
          .fallback = "1",
          .doc = "Such blocks in a row."},
    Field{.path = "model.blocks.parameters",
          .kind = Kind::kNumber,
          .slot = number_slot,
          .range = {.low = 0, .high = 1e15},
          .fallback = "required",
          .doc = "Elements of one block's weights."},
    Field{.path = "model.blocks.forward_flops",
          .kind = Kind::kNumber,
          .slot = number_slot,
          .range = {.low = 0, .high = 1e21},
          .fallback = "0",
          .doc = "Of one sample."},
    Field{.path = "model.blocks.saved_bytes",
          .kind = Kind::kBytes,
          .slot = number_slot,
          .range = kByteCount,
          .fallback = "0",
          .doc = "Kept from forward to backward of one sample, the input included."},
    Field{.path = "model.blocks.input_bytes",
          .kind = Kind::kBytes,
          .slot = number_slot,
          .range = kByteCount,
          .fallback = "0",
          .doc = "Part of saved_bytes that full recomputation keeps."},
};

const Field* field_of(std::string_view key) {
  const auto found = std::find_if(kFields.begin(), kFields.end(),
                                  [&](const Field& field) { return leaf_of(field.path) == key; });
  return found == kFields.end() ? nullptr : &*found;
}

double* number_of(CustomBlock& block, std::string_view key) {
  if (key == "parameters") return &block.parameters;
  if (key == "forward_flops") return &block.forward_flops;
  if (key == "saved_bytes") return &block.saved_bytes;
  return &block.input_bytes;
}

class BlockReader {
 public:
  BlockReader(const Source& source, Diagnostic& problem) : source_(source), problem_(problem) {}

  std::optional<CustomBlock> read(const YamlNode& node, std::size_t position);

 private:
  std::nullopt_t fail(const char* code, Place place, const std::string& message,
                      std::string hint = {}) {
    problem_ = source_.error(code, place, std::string(kPath), message);
    problem_.hint = std::move(hint);
    return std::nullopt;
  }
  std::nullopt_t fail_unknown(const YamlEntry& entry);
  bool read_key(const YamlEntry& entry, CustomBlock& block);

  const Source& source_;
  Diagnostic& problem_;
};

std::nullopt_t BlockReader::fail_unknown(const YamlEntry& entry) {
  std::vector<std::string_view> keys;
  for (const Field& field : kFields) keys.push_back(leaf_of(field.path));
  const std::optional<std::string> meant = closest(entry.key, keys);
  return fail("NQD1006", entry.key_place,
              "there is no key \"" + printable(entry.key) + "\" in a block",
              meant ? "did you mean " + *meant + "?" : "known here: " + joined(keys));
}

bool BlockReader::read_key(const YamlEntry& entry, CustomBlock& block) {
  const Field* field = field_of(entry.key);
  if (field == nullptr) {
    fail_unknown(entry);
    return false;
  }
  const std::optional<Value> value = read_value(*field, entry.value, source_, problem_);
  if (!value) return false;
  if (entry.key == "name") {
    block.name = std::get<std::string>(*value);
  } else if (entry.key == "count") {
    block.count = std::get<std::int64_t>(*value);
  } else {
    *number_of(block, entry.key) = std::get<double>(*value);
  }
  return true;
}

std::optional<CustomBlock> BlockReader::read(const YamlNode& node, std::size_t position) {
  const std::string which = "block " + std::to_string(position + 1);
  if (node.kind != YamlNode::Kind::kMap) {
    fail("NQD1008", node.place, which + " of " + std::string(kPath) + " is a mapping of keys");
    problem_.expected = "a mapping such as {name: conv, parameters: 36928}";
    problem_.got = describe(node);
    return std::nullopt;
  }
  CustomBlock block;
  bool parameters = false;
  for (const YamlEntry& entry : node.entries) {
    if (!read_key(entry, block)) return std::nullopt;
    parameters = parameters || entry.key == "parameters";
  }
  if (block.name.empty()) return fail("NQD1014", node.place, which + " lacks name");
  if (!parameters) {
    return fail("NQD1014", node.place, which + " lacks parameters",
                "write `parameters: 0` for a block without weights");
  }
  if (block.input_bytes > block.saved_bytes) {
    return fail("NQD1033", node.place, which + " keeps less than its input",
                "saved_bytes includes input_bytes");
  }
  return block;
}

}  // namespace

std::span<const Field> block_fields() { return kFields; }

std::optional<std::vector<CustomBlock>> read_block_list(const YamlNode& node, const Source& source,
                                                        Diagnostic& problem) {
  if (node.kind != YamlNode::Kind::kSequence || node.items.empty()) {
    problem = source.error("NQD1008", node.place, std::string(kPath),
                           std::string(kPath) + " is a list of at least one block");
    problem.expected = "a list such as [{name: conv, parameters: 36928}]";
    problem.got = node.items.empty() && node.kind == YamlNode::Kind::kSequence ? "an empty list"
                                                                               : describe(node);
    return std::nullopt;
  }
  std::vector<CustomBlock> blocks;
  BlockReader reader(source, problem);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    std::optional<CustomBlock> block = reader.read(node.items[i], i);
    if (!block) return std::nullopt;
    blocks.push_back(std::move(*block));
  }
  return blocks;
}

std::string block_list_text(const std::vector<CustomBlock>& blocks) {
  std::string text = "[";
  for (const CustomBlock& block : blocks) {
    if (text.size() > 1) text += ", ";
    text += "{name: \"" + printable(block.name, 2 * block.name.size() + 1) +
            "\", count: " + std::to_string(block.count) +
            ", parameters: " + number_text(block.parameters) +
            ", forward_flops: " + number_text(block.forward_flops) +
            ", saved_bytes: " + number_text(block.saved_bytes) +
            ", input_bytes: " + number_text(block.input_bytes) + "}";
  }
  return text + "]";
}

}  // namespace nqd::planner
