#include "planner/import/published/spellings.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

namespace nqd::planner::published {
namespace {

constexpr std::array<std::string_view, 8> kNoValue = {"",    "-",  "–",    "—",
                                                      "n/a", "na", "null", "unknown"};
constexpr std::array<std::string_view, 5> kOff = {"none", "off", "no", "false", "disabled"};

constexpr std::array<std::string_view, 2> kDegrees = {"tp", "pp"};
constexpr std::array<std::string_view, 4> kOptionalDegrees = {"cp", "ep", "etp", "vpp"};
constexpr std::array<std::string_view, 5> kFlags = {
    "sequence_parallel", "cpu_offload", "flash_attention", "arch.gated_mlp", "arch.mla"};
constexpr std::array<std::string_view, 2> kWords = {"zero", "recompute"};
constexpr std::array<std::string_view, 2> kAmounts = {"fsdp", "dropout"};
// What a row is called is no value that could be missing.
constexpr std::array<std::string_view, 2> kNames = {"id", "model"};

template <std::size_t n>
bool in(const std::array<std::string_view, n>& all, std::string_view word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string trimmed(const std::string& text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// 16 bits, and not which.
bool names_no_format(std::string_view precision) {
  constexpr std::array<std::string_view, 5> kMixed = {"mixed precision", "amp", "16", "16-bit",
                                                      "16 bit"};
  return in(kMixed, precision);
}

void switch_off(Fields& row, const std::string& key) {
  if (in(kDegrees, key) || in(kOptionalDegrees, key)) return row.set(key, 1.0);
  if (in(kFlags, key)) return row.set(key, false);
  if (in(kWords, key)) return row.set(key, std::string("none"));
  if (in(kAmounts, key)) return row.set(key, 0.0);
  row.erase(key);
}

}  // namespace

void settle_spellings(Fields& row) {
  for (auto next = row.all().begin(); next != row.all().end();) {
    // Before what it points to is taken out.
    const auto [key, value] = *next++;
    if (in(kNames, key)) continue;
    if (const auto* text = std::get_if<std::string>(&value)) row.set(key, trimmed(*text));
    const std::string word = row.lower(key);
    const bool has_none = in(kOptionalDegrees, key) || key == "recompute";
    if (in(kNoValue, word)) {
      row.erase(key);
    } else if (in(kOff, word) || (has_none && row.number(key) == 0.0)) {
      switch_off(row, key);
    } else if (key == "precision" && names_no_format(word)) {
      row.set(key, std::string("mixed"));
    }
  }
}

}  // namespace nqd::planner::published
