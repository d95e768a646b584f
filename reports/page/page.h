// A report page under construction: sections in order, charts with their tables, one data block
// that the page's script draws from.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nqd::reports {

enum class Tone { kPlain, kGood, kWarning, kBad };

struct Cell {
  std::string text;  // escaped when written
  bool numeric = false;
  Tone tone = Tone::kPlain;
};
inline Cell number_cell(std::string text) { return {std::move(text), true, Tone::kPlain}; }

struct Table {
  std::vector<std::string> headers;
  std::vector<std::vector<Cell>> rows;  // as many cells as headers
};

struct Point {
  double x = 0;
  double y = 0;
  double low = 0;  // the band around y; equal to y when there is none
  double high = 0;
};

struct Series {
  std::string label;
  std::string style = "line";  // "line", "dashed" (a fit or prediction), "points" (line with marks)
  std::vector<Point> points;   // ascending x; a point that is not finite is a gap
  // Of the chart's series, the one whose colour this one shares (a fit and its samples); none: its
  // own.
  std::optional<std::size_t> like = std::nullopt;
};

// Scales: "linear", "log", "bytes" (powers of two), "seconds" (log, SI prefixes).
struct Axis {
  std::string label;
  std::string scale = "linear";
};

struct LineChart {
  std::string title;
  std::string caption;  // what the reader should see; may be empty
  Axis x, y;
  std::vector<Series> series;
  Table table;  // the same numbers
};

// Horizontal bars: one group a category, one bar a series.
struct BarChart {
  std::string title;
  std::string caption;
  Axis x;
  std::vector<std::string> categories;
  struct Bars {
    std::string label;
    std::vector<double> values;  // one a category
  };
  std::vector<Bars> bars;
  Table table;
};

struct Card {
  std::string label;
  std::string value;
  std::string note;
  Tone tone = Tone::kPlain;
};

class Page {
 public:
  Page(std::string title, std::string subtitle)
      : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

  // Sections do not nest; `id` is the anchor of the page's navigation.
  void begin_section(std::string_view id, std::string_view title, std::string_view lead = {});
  void end_section();

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  void code(std::string_view text);
  void cards(const std::vector<Card>& cards);
  void callout(Tone tone, std::string_view title, const std::vector<std::string>& lines);
  void definitions(const std::vector<std::pair<std::string, std::string>>& entries);
  void table(const Table& table);
  // A table behind a disclosure.
  void details(std::string_view summary, const Table& table);
  // Charts between begin_charts and end_charts stand side by side where there is room.
  void begin_charts();
  void chart(const LineChart& chart);
  void chart(const BarChart& chart);
  void end_charts();

  // The whole document.
  std::string finish() const;

 private:
  void begin_figure(const std::string& title, const std::string& caption, int bar_groups);
  void end_figure(const Table& table);

  std::string title_;
  std::string subtitle_;
  std::string navigation_;
  std::string body_;
  std::vector<std::string> charts_;  // JSON of each chart, in order of its canvas
};

// A table's HTML alone.
std::string table_html(const Table& table);

}  // namespace nqd::reports
