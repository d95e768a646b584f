// The fields of one row, whatever types their author chose.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nqd::planner::published {

// Members by dotted path ("arch.layers"); a member that is null is absent.
class Fields {
 public:
  using Scalar = std::variant<double, bool, std::string>;

  void set(std::string path, Scalar value) { values_[std::move(path)] = std::move(value); }
  void erase(const std::string& path) { values_.erase(path); }

  // A number, or a text that is one ("8"); finite.
  std::optional<double> number(std::string_view path) const;
  std::optional<double> positive(std::string_view path) const;
  // A whole number in [1, 2^24].
  std::optional<std::int64_t> count(std::string_view path) const;
  std::int64_t count_or(std::string_view path, std::int64_t otherwise) const {
    return count(path).value_or(otherwise);
  }
  // true, false, and texts that say so ("False", "yes", "enabled").
  std::optional<bool> flag(std::string_view path) const;
  // A text; a number or flag as a person would write it; empty when absent.
  std::string text(std::string_view path) const;
  // The same in lower case.
  std::string lower(std::string_view path) const;
  bool has(std::string_view path) const { return values_.find(path) != values_.end(); }
  const std::map<std::string, Scalar, std::less<>>& all() const { return values_; }

  // points_bytes_seconds of a curve.
  std::vector<std::pair<double, double>> points;
  // What a reader had to assume.
  std::vector<std::string> assumed;

 private:
  std::map<std::string, Scalar, std::less<>> values_;
};

std::string lower_case(std::string text);
bool contains(std::string_view text, std::string_view part);

}  // namespace nqd::planner::published
