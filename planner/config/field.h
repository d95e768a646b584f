// The one table of every key of a config file. Reading, checking, did-you-mean, the resolved list,
// the JSON Schema and the reference are all driven by it: a new key is one row.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

// The record under construction: Config, and the values that only the loader uses.
struct Draft {
  Config config;
  double peak_flops_float32 = 0;
  std::string calibration;  // path as given
};

using Slot = std::variant<std::int64_t*, double*, bool*, std::string*, std::optional<std::int64_t>*,
                          std::vector<std::int64_t>*, std::vector<double>*,
                          std::vector<CustomBlock>*, Engine*, Precision*, Recompute*, Schedule*,
                          Attention*, Norm*, Positions*, MeshOrder*, OptimizerKind*, RateSchedule*,
                          DecayShape*, Runtime*, collectives::Numerics*>;

enum class Kind : std::uint8_t {
  kInteger,
  kNumber,
  kBoolean,
  kText,
  kChoice,          // one of `choices`
  kIntegers,        // a list of integers
  kNumbers,         // a list of numbers
  kBlocks,          // a list of CustomBlock, each a mapping (planner/config/block_list.h)
  kBytes,           // a number of bytes, or text such as "80 GB"
  kBytesPerSecond,  // a number, or "450 GB/s", "400 Gb/s"
  kFlops,           // a number of FLOP/s, or "989 TFLOP/s"
  kSeconds,         // a number of seconds, or "3 us"
};

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  // low itself is not allowed
  bool high_open = false;
  bool contains(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
};

struct Field {
  std::string_view path;  // "train.optimizer.learning_rate"
  Kind kind = Kind::kInteger;
  Slot (*slot)(Draft&) = nullptr;
  Range range = {};
  std::span<const std::string_view> choices = {};
  std::string_view unit = {};  // "sequences"; empty where the kind or the meaning says it
  // Model families that it applies to, separated by spaces; empty = all.
  std::string_view family = {};
  std::string_view fallback = {};  // how an omitted value is derived; empty = the record's default
  std::string_view doc = {};       // one line
  std::string_view also = {};      // other tools' names for it, space-separated, for hints only
};

struct Section {
  std::string_view path;
  std::string_view doc;
  // The key that a value in place of the section's mapping sets; empty = none.
  std::string_view shorthand = {};
};

// True when `field` applies to models of `family`.
bool applies_to(const Field& field, std::string_view family);

std::span<const Field> fields();
std::span<const Section> sections();
// Null when there is none of that path.
const Field* find_field(std::string_view path);
const Section* find_section(std::string_view path);
// The field that a value given to the section `path` itself sets; null when there is none.
const Field* shorthand_of(std::string_view path);

// "hidden" of "model.hidden"; "model" of it; the parent of "model" is "".
std::string_view leaf_of(std::string_view path);
std::string_view parent_of(std::string_view path);

using Value = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                           std::vector<double>, std::vector<CustomBlock>>;
// Stores a value of the field's kind; a choice is stored by its name.
void store(const Field& field, Draft& draft, const Value& value);
// The stored value as YAML prints it; text is quoted where YAML would read something else.
std::string value_text(const Field& field, Draft& draft);
// The default of the record, or the rule that derives one: "4 · hidden".
std::string default_text(const Field& field);
// "an integer between 1 and 65536", "one of ddp, zero1".
std::string expectation(const Field& field);

// A whole number without a fraction, others in the shortest form that reads back equal.
std::string number_text(double value);

}  // namespace nqd::planner
