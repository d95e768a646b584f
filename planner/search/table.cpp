#include "planner/search/table.h"

#include <algorithm>
#include <cstddef>

namespace nqd::planner::search {
namespace {

// Characters of UTF-8 text.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

std::string Table::text() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> shown(columns, false);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    // The last cell of a short row may run on.
    const std::size_t cells = std::min(rows_[r].size(), columns);
    for (std::size_t c = 0; c < cells; ++c) {
      const bool runs_on = rows_[r].size() < columns && c + 1 == cells;
      if (!runs_on) widths[c] = std::max(widths[c], width(rows_[r][c]));
      if (r > 0 && rows_[r][c] != "-") shown[c] = true;
    }
  }
  std::string all;
  for (const std::vector<std::string>& row : rows_) {
    std::string line = "  ";
    std::size_t pending = 0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (!shown[c]) continue;
      line += std::string(pending, ' ') + row[c];
      pending = widths[c] + 2 - std::min(width(row[c]), widths[c] + 1);
    }
    all += line + "\n";
  }
  return all;
}

}  // namespace nqd::planner::search
