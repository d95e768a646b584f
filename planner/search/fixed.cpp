#include "planner/search/fixed.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace nqd::planner::search {
namespace {

// One row a key: the slot of a Fixed and the value of a Candidate.
constexpr std::tuple kKeys = {
    std::tuple("dp", &Fixed::dp, &Candidate::dp),
    std::tuple("tp", &Fixed::tp, &Candidate::tp),
    std::tuple("pp", &Fixed::pp, &Candidate::pp),
    std::tuple("cp", &Fixed::cp, &Candidate::cp),
    std::tuple("ep", &Fixed::ep, &Candidate::ep),
    std::tuple("vpp", &Fixed::vpp, &Candidate::vpp),
    std::tuple("micro_batch_size", &Fixed::micro_batch_size, &Candidate::micro_batch_size),
    std::tuple("engine", &Fixed::engine, &Candidate::engine),
    std::tuple("recompute", &Fixed::recompute, &Candidate::recompute),
    std::tuple("sequence_parallel", &Fixed::sequence_parallel, &Candidate::sequence_parallel),
    std::tuple("schedule", &Fixed::schedule, &Candidate::schedule),
};

// visit(name, slot, member) for every key.
template <typename Visit>
void for_each_key(Visit visit) {
  std::apply([&](const auto&... row) { (std::apply(visit, row), ...); }, kKeys);
}

std::string text(std::int32_t value) { return std::to_string(value); }
std::string text(bool value) { return value ? "true" : "false"; }
template <typename Enum>
std::string text(Enum value) requires std::is_enum_v<Enum> {
  return std::string(name(value));
}

std::string expected(const std::int32_t*) { return "a whole number from 1 to 2147483647"; }
std::string expected(const bool*) { return "true or false"; }
template <typename Enum>
std::string expected(const Enum*) requires std::is_enum_v<Enum> {
  std::string all;
  for (int i = 0; name(static_cast<Enum>(i)) != "?"; ++i) {
    all += (i > 0 ? ", " : "") + text(static_cast<Enum>(i));
  }
  return "one of " + all;
}

std::optional<std::int32_t> parsed(std::string_view from, const std::int32_t*) {
  std::int32_t value = 0;
  const char* end = from.data() + from.size();
  const auto [rest, error] = std::from_chars(from.data(), end, value);
  if (error != std::errc{} || rest != end || value < 1) return std::nullopt;
  return value;
}
std::optional<bool> parsed(std::string_view from, const bool*) {
  if (from == "true") return true;
  if (from == "false") return false;
  return std::nullopt;
}
template <typename Enum>
std::optional<Enum> parsed(std::string_view from, const Enum*) requires std::is_enum_v<Enum> {
  for (int i = 0; name(static_cast<Enum>(i)) != "?"; ++i) {
    if (name(static_cast<Enum>(i)) == from) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD1030", message, hint);
}

void read_one(std::string_view item, Fixed& fixed) {
  const std::size_t equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
  bool found = false;
  for_each_key([&](const char* name, auto slot, auto) {
    if (key != name) return;
    found = true;
    using Value = typename std::remove_reference_t<decltype(fixed.*slot)>::value_type;
    const Value* const type = nullptr;
    fixed.*slot = parsed(value, type);
    if (!(fixed.*slot)) {
      refuse("\"" + std::string(item) + "\": " + name + " takes " + expected(type),
             "write it as in tp=8,engine=zero1");
    }
  });
  if (found) return;
  std::string keys;
  for_each_key([&](const char* name, auto, auto) {
    keys += (keys.empty() ? "" : ", ") + std::string(name);
  });
  refuse("a plan has no \"" + std::string(key) + "\"", "its keys are " + keys);
}

}  // namespace

void read_fixed(std::string_view list, Fixed& fixed) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    read_one(list.substr(0, comma), fixed);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

std::vector<std::string_view> held_keys(const Fixed& fixed) {
  std::vector<std::string_view> keys;
  for_each_key([&](const char* name, auto slot, auto) {
    if (fixed.*slot) keys.emplace_back(name);
  });
  return keys;
}

Fixed without(Fixed fixed, std::string_view key) {
  for_each_key([&](const char* name, auto slot, auto) {
    if (key == name) (fixed.*slot).reset();
  });
  return fixed;
}

std::string value_of(const Candidate& candidate, std::string_view key) {
  std::string value;
  for_each_key([&](const char* name, auto, auto member) {
    if (key == name) value = text(candidate.*member);
  });
  return value;
}

std::string text_of(const Fixed& fixed) {
  std::string list;
  for_each_key([&](const char* name, auto slot, auto) {
    if (!(fixed.*slot)) return;
    list += (list.empty() ? "" : ",") + std::string(name) + "=" + text(*(fixed.*slot));
  });
  return list;
}

Fixed combined(const Fixed& inner, const Fixed& outer) {
  Fixed both = inner;
  for_each_key([&](const char*, auto slot, auto) {
    if (!(both.*slot)) both.*slot = outer.*slot;
  });
  return both;
}

}  // namespace nqd::planner::search
