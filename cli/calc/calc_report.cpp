#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/error.h"
#include "base/units.h"
#include "cli/calc/calc.h"
#include "planner/config/read_value.h"
#include "planner/text.h"
#include "reports/envelope.h"
#include "reports/json_writer.h"

namespace nqd::cli {
namespace {

using reports::JsonWriter;

struct Suffix {
  std::string_view text;
  double factor;
};
// "7B" parameters, "4min"; what planner/config/ reads is read by its own rules.
constexpr std::array kCounts = {Suffix{"k", 1e3}, Suffix{"K", 1e3}, Suffix{"M", 1e6},
                                Suffix{"G", 1e9}, Suffix{"B", 1e9}, Suffix{"T", 1e12}};
constexpr std::array kTimes = {Suffix{"min", 60}, Suffix{"h", 3600}, Suffix{"d", 86400}};

template <std::size_t N>
std::optional<double> with_suffix(std::string_view text, const std::array<Suffix, N>& suffixes) {
  for (const Suffix& suffix : suffixes) {
    if (!text.ends_with(suffix.text)) continue;
    std::string_view number = text.substr(0, text.size() - suffix.text.size());
    if (number.ends_with(' ')) number.remove_suffix(1);
    if (const auto value = planner::parse_number(number)) return *value * suffix.factor;
  }
  return std::nullopt;
}

std::optional<double> parse(const std::string& text, Unit unit) {
  if (const auto number = planner::parse_number(text)) return number;
  switch (unit) {
    case Unit::kNumber:
      return with_suffix(text, kCounts);
    case Unit::kBytes:
      return planner::parse_quantity(planner::Kind::kBytes, text);
    case Unit::kBytesPerSecond:
      return planner::parse_quantity(planner::Kind::kBytesPerSecond, text);
    case Unit::kSeconds:
      if (const auto time = planner::parse_quantity(planner::Kind::kSeconds, text)) return time;
      return with_suffix(text, kTimes);
    case Unit::kFlops:
      return planner::parse_quantity(planner::Kind::kFlops, text + "/s");
    case Unit::kFlopsPerSecond:
      return planner::parse_quantity(planner::Kind::kFlops, text);
    case Unit::kFraction:
      if (text.ends_with('%')) {
        const auto percent = with_suffix(text, std::array{Suffix{"%", 0.01}});
        return percent;
      }
      return std::nullopt;
    case Unit::kDollars:
      return text.starts_with('$') ? planner::parse_number(text.substr(1)) : std::nullopt;
  }
  return std::nullopt;
}

std::string_view examples(Unit unit) {
  switch (unit) {
    case Unit::kNumber:
      return "70e9 or 7B";
    case Unit::kBytes:
      return "1e9, 25 GB or 64 MiB";
    case Unit::kBytesPerSecond:
      return "50e9, 50 GB/s or 400 Gb/s";
    case Unit::kSeconds:
      return "0.25, 5us, 4min, 2h or 30d";
    case Unit::kFraction:
      return "0.1 or 10%";
    case Unit::kFlops:
      return "120e9 or 120 GFLOP";
    case Unit::kFlopsPerSecond:
      return "989e12 or 989 TFLOP/s";
    case Unit::kDollars:
      return "4, 2.50 or $4";
  }
  return "";
}

std::string scaled(double value, const std::string& unit) {
  const double size = std::abs(value);
  constexpr std::array<std::pair<double, const char*>, 7> kPrefixes = {
      {{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
  for (const auto& [factor, prefix] : kPrefixes) {
    if (size < factor) continue;
    std::array<char, 64> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.4g %s%s", value / factor, prefix, unit.c_str());
    return buffer.data();
  }
  return compact(value) + " " + unit;
}

std::string long_time(double seconds) {
  std::array<char, 64> buffer{};
  if (seconds >= 2 * 86400.0) {
    std::snprintf(buffer.data(), buffer.size(), "%.0f s (%.2f d)", seconds, seconds / 86400);
  } else if (seconds >= 120) {
    std::snprintf(buffer.data(), buffer.size(), "%.0f s (%.1f min)", seconds, seconds / 60);
  } else {
    return format_seconds(seconds);
  }
  return buffer.data();
}

std::string print_value(const CalcValue& value, Unit unit) {
  if (const auto* number = std::get_if<double>(&value)) return print_quantity(*number, unit);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return print_quantity(static_cast<double>(*whole), unit);
  }
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return "-";
}

// Columns of a terminal, for text with letters beyond ASCII.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string table_text(const CalcTable& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const CalcTable::Column& column : table.columns) lines.front().push_back(column.label);
  for (const std::vector<CalcValue>& row : table.rows) {
    lines.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c) {
      lines.back().push_back(print_value(row[c], table.columns[c].unit));
    }
  }
  std::vector<std::size_t> widths(table.columns.size());
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width(line[c]));
  }
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      text += line[c];
      if (c + 1 < line.size()) text += std::string(widths[c] + 2 - width(line[c]), ' ');
    }
    text += '\n';
  }
  return text;
}

void write_value(JsonWriter& json, const CalcValue& value) {
  std::visit(
      [&](const auto& held) {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          json.null();
        } else {
          json.value(held);
        }
      },
      value);
}

}  // namespace

std::string compact(double value) {
  const double size = std::abs(value);
  std::array<char, 64> buffer{};
  if (size < 1e6) {
    std::snprintf(buffer.data(), buffer.size(), "%.6g", value);
    return buffer.data();
  }
  const int exponent = static_cast<int>(std::floor(std::log10(size) / 3 + 1e-12)) * 3;
  std::snprintf(buffer.data(), buffer.size(), "%.6ge%d", value / std::pow(10, exponent), exponent);
  return buffer.data();
}

double read_quantity(const std::string& flag, const std::string& text, Unit unit, double least,
                     bool open) {
  const std::optional<double> value = parse(text, unit);
  if (!value || !std::isfinite(*value)) {
    throw Error(ExitCode::kUsage, "NQD1013", flag + " does not know the figure `" + text + "`",
                "write it as " + std::string(examples(unit)));
  }
  if (open ? *value > least : *value >= least) return *value;
  throw Error(
      ExitCode::kUsage, "NQD1009",
      flag + " must be " + (open ? "more than " : "at least ") + compact(least) + ", not " + text,
      "write it as " + std::string(examples(unit)));
}

std::string print_quantity(double value, Unit unit) {
  if (!std::isfinite(value)) return "no limit";
  std::array<char, 64> buffer{};
  switch (unit) {
    case Unit::kNumber:
      return compact(value);
    case Unit::kBytes:
      return format_bytes(value);
    case Unit::kBytesPerSecond:
      return scaled(value, "B/s");
    case Unit::kSeconds:
      return long_time(value);
    case Unit::kFraction:
      return planner::percent(value);
    case Unit::kFlops:
      return scaled(value, "FLOP");
    case Unit::kFlopsPerSecond:
      return scaled(value, "FLOP/s");
    case Unit::kDollars:
      std::snprintf(buffer.data(), buffer.size(), "$%.2f", value);
      return buffer.data();
  }
  return compact(value);
}

void throw_mismatch(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD1090", message, hint);
}

std::string calc_text(const CalcReport& report) {
  std::string text;
  for (const Figure& figure : report.figures) {
    text += figure.label + "\n";
    if (!figure.formula.empty()) text += "    " + figure.formula + "\n";
    if (!figure.numbers.empty()) text += "  = " + figure.numbers + "\n";
    text += (figure.formula.empty() && figure.numbers.empty() ? "    " : "  = ") +
            print_value(figure.value, figure.unit) + "\n";
  }
  for (const CalcTable& table : report.tables) {
    if (!text.empty()) text += '\n';
    text += table_text(table);
  }
  if (!report.notes.empty()) text += '\n';
  for (const std::string& note : report.notes) text += note + "\n";
  return text;
}

std::string calc_json(const std::string& name, const CalcReport& report) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", reports::kSchemaVersion);
  json.field("calc", name);
  json.key("inputs").begin_object();
  for (const auto& [key, value] : report.inputs) write_value(json.key(key), value);
  json.end();
  for (const Figure& figure : report.figures) write_value(json.key(figure.key), figure.value);
  for (const CalcTable& table : report.tables) {
    json.key(table.key).begin_array();
    for (const std::vector<CalcValue>& row : table.rows) {
      json.begin_object(JsonWriter::Layout::kInline);
      for (std::size_t c = 0; c < row.size(); ++c) {
        write_value(json.key(table.columns[c].key), row[c]);
      }
      json.end();
    }
    json.end();
  }
  json.key("formulas").begin_object();
  for (const Figure& figure : report.figures) {
    if (figure.formula.empty()) continue;
    json.key(figure.key).begin_object(JsonWriter::Layout::kInline);
    json.field("formula", figure.formula);
    json.field("numbers", figure.numbers);
    json.end();
  }
  json.end();
  json.key("notes").begin_array();
  for (const std::string& note : report.notes) json.value(note);
  json.end().end();
  return json.take();
}

}  // namespace nqd::cli
