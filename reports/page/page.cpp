#include "reports/page/page.h"

#include <algorithm>
#include <utility>

#include "reports/json_writer.h"
#include "reports/page/assets.h"
#include "reports/page/format.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

std::string_view css_class(Tone tone) {
  switch (tone) {
    case Tone::kGood:
      return "good";
    case Tone::kWarning:
      return "warning";
    case Tone::kBad:
      return "bad";
    case Tone::kPlain:
      return "plain";
  }
  return "plain";
}

// `text` inside <tag>, escaped.
std::string element(std::string_view tag, std::string_view text) {
  const std::string name(tag);
  return "<" + name + ">" + escape_html(text) + "</" + name + ">";
}

std::string cell_html(const Cell& cell) {
  std::string classes = cell.numeric ? "number" : "";
  if (cell.tone != Tone::kPlain) {
    classes += (classes.empty() ? "" : " ") + std::string(css_class(cell.tone));
  }
  const std::string open = classes.empty() ? "<td>" : "<td class=\"" + classes + "\">";
  return open + escape_html(cell.text) + "</td>";
}

void write_axis(JsonWriter& json, std::string_view name, const Axis& axis) {
  json.key(name).begin_object();
  json.field("label", axis.label);
  json.field("scale", axis.scale);
  json.end();
}

bool has_band(const Series& series) {
  return std::any_of(series.points.begin(), series.points.end(), [](const Point& point) {
    // A gap is not equal to itself and no band.
    return point.low < point.y || point.high > point.y;
  });
}

void write_series(JsonWriter& json, const Series& series) {
  const bool band = has_band(series);
  json.begin_object();
  json.field("label", series.label);
  json.field("style", series.style);
  json.field("band", band);
  json.field("like", series.like);
  json.key("points").begin_array();
  for (const Point& point : series.points) {
    json.begin_array().value(point.x).value(point.y);
    if (band) json.value(point.low).value(point.high);
    json.end();
  }
  json.end().end();
}

// Inside a script element only "</script" and "<!--" could end or change the block.
std::string script_safe(std::string json) {
  for (auto at = json.find('<'); at != std::string::npos; at = json.find('<', at)) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

constexpr std::string_view kHead = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
)html";

}  // namespace

std::string table_html(const Table& table) {
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  for (std::size_t i = 0; i < table.headers.size(); ++i) {
    const bool numeric = !table.rows.empty() && table.rows.front()[i].numeric;
    html += numeric ? "<th scope=\"col\" class=\"number\">" : "<th scope=\"col\">";
    html += escape_html(table.headers[i]) + "</th>";
  }
  html += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    html += "<tr>";
    for (const Cell& cell : row) html += cell_html(cell);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

void Page::begin_section(std::string_view id, std::string_view title, std::string_view lead) {
  navigation_ += "<a href=\"#" + escape_html(id) + "\">" + escape_html(title) + "</a>\n";
  body_ += "<section id=\"" + escape_html(id) + "\">\n" + element("h2", title) + "\n";
  if (!lead.empty()) body_ += "<p class=\"lead\">" + escape_html(lead) + "</p>\n";
}

void Page::end_section() { body_ += "</section>\n"; }
void Page::heading(std::string_view text) { body_ += element("h3", text) + "\n"; }
void Page::paragraph(std::string_view text) { body_ += element("p", text) + "\n"; }

void Page::code(std::string_view text) {
  body_ += "<pre><code>" + escape_html(text) + "</code></pre>\n";
}

void Page::cards(const std::vector<Card>& cards) {
  body_ += "<div class=\"cards\">\n";
  for (const Card& card : cards) {
    body_ += "<div class=\"card " + std::string(css_class(card.tone)) + "\">";
    body_ += "<div class=\"label\">" + escape_html(card.label) + "</div>";
    body_ += "<div class=\"value\">" + escape_html(card.value) + "</div>";
    body_ += "<div class=\"note\">" + escape_html(card.note) + "</div></div>\n";
  }
  body_ += "</div>\n";
}

void Page::callout(Tone tone, std::string_view title, const std::vector<std::string>& lines) {
  body_ +=
      "<div class=\"callout " + std::string(css_class(tone)) + "\">" + element("strong", title);
  for (const std::string& line : lines) body_ += element("p", line);
  body_ += "</div>\n";
}

void Page::definitions(const std::vector<std::pair<std::string, std::string>>& entries) {
  body_ += "<dl>\n";
  for (const auto& [term, text] : entries) {
    body_ += element("dt", term) + element("dd", text) + "\n";
  }
  body_ += "</dl>\n";
}

void Page::table(const Table& table) { body_ += table_html(table); }

void Page::details(std::string_view summary, const Table& table) {
  body_ += "<details>" + element("summary", summary) + table_html(table) + "</details>\n";
}

void Page::begin_charts() { body_ += "<div class=\"charts\">\n"; }
void Page::end_charts() { body_ += "</div>\n"; }

void Page::begin_figure(const std::string& title, const std::string& caption, int bar_groups) {
  body_ += "<figure>" + element("h4", title);
  if (!caption.empty()) body_ += element("figcaption", caption);
  const std::string height =
      bar_groups > 0 ? " style=\"height:" + std::to_string(90 + 44 * bar_groups) + "px\"" : "";
  body_ += "<div class=\"plot\"" + height + "><canvas id=\"chart-" +
           std::to_string(charts_.size()) + "\" role=\"img\" aria-label=\"" + escape_html(title) +
           "\"></canvas></div>\n";
}

void Page::end_figure(const Table& table) {
  details("Numbers", table);
  body_ += "</figure>\n";
}

void Page::chart(const LineChart& chart) {
  begin_figure(chart.title, chart.caption, 0);
  JsonWriter json;
  json.begin_object(Layout::kInline);
  json.field("kind", "lines");
  write_axis(json, "x", chart.x);
  write_axis(json, "y", chart.y);
  json.key("series").begin_array();
  for (const Series& series : chart.series) write_series(json, series);
  json.end().end();
  charts_.push_back(json.take());
  end_figure(chart.table);
}

void Page::chart(const BarChart& chart) {
  begin_figure(chart.title, chart.caption, static_cast<int>(chart.categories.size()));
  JsonWriter json;
  json.begin_object(Layout::kInline);
  json.field("kind", "bars");
  write_axis(json, "x", chart.x);
  json.key("categories").begin_array();
  for (const std::string& category : chart.categories) json.value(category);
  json.end();
  json.key("bars").begin_array();
  for (const BarChart::Bars& bars : chart.bars) {
    json.begin_object();
    json.field("label", bars.label);
    json.field("values", std::span<const double>(bars.values));
    json.end();
  }
  json.end().end();
  charts_.push_back(json.take());
  end_figure(chart.table);
}

std::string Page::finish() const {
  std::string html(kHead);
  html += element("title", title_) + "\n<style>\n" + std::string(assets::report_css()) +
          "</style>\n</head>\n<body>\n<header><div class=\"inner\">" + element("h1", title_) +
          element("p", subtitle_) + "<nav>\n" + navigation_ + "</nav></div></header>\n<main>\n" +
          body_ + "</main>\n";
  html += "<script type=\"application/json\" id=\"charts\">[";
  for (std::size_t i = 0; i < charts_.size(); ++i) {
    html += (i == 0 ? "\n" : ",\n") + script_safe(charts_[i]);
  }
  html += "]</script>\n<script>\n" + std::string(assets::chart_js()) + "\n</script>\n<script>\n" +
          std::string(assets::report_js()) + "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace nqd::reports
