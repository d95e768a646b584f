// Rows with aligned columns, for a terminal.
#pragma once

#include <string>
#include <vector>

namespace nqd::planner::search {

class Table {
 public:
  explicit Table(std::vector<std::string> titles) : rows_{std::move(titles)} {}
  // May have fewer cells than there are titles.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  // Indented by two, columns two apart; columns that hold "-" alone are left out.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace nqd::planner::search
