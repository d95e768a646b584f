#include "planner/search/sweep.h"

#include <algorithm>

#include "base/error.h"
#include "planner/config/field.h"

namespace nqd::planner::search {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD1034", message, hint);
}

std::string path_of(std::string_view name) {
  if (name == "nic") return "cluster.inter_node.bandwidth_bytes_per_s";
  if (name.find('.') != std::string_view::npos) return std::string(name);
  std::vector<std::string_view> paths;
  for (const Field& field : fields()) {
    if (leaf_of(field.path) == name) paths.push_back(field.path);
  }
  if (paths.size() == 1) return std::string(paths.front());
  std::string all;
  for (const std::string_view path : paths) all += (all.empty() ? "" : ", ") + std::string(path);
  if (paths.empty()) {
    refuse("no key of a config ends in \"" + std::string(name) + "\"",
           "`nqd schema reference` lists every key");
  }
  refuse("\"" + std::string(name) + "\" may be any of " + all, "write the whole path");
}

}  // namespace

SweepAxis read_sweep(std::string_view text) {
  const std::size_t equals = text.find('=');
  SweepAxis axis;
  if (equals != std::string_view::npos) {
    axis.name = text.substr(0, equals);
    std::string_view rest = text.substr(equals + 1);
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      axis.values.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  const bool empty = std::any_of(axis.values.begin(), axis.values.end(),
                                 [](const std::string& value) { return value.empty(); });
  if (axis.name.empty() || axis.values.empty() || empty) {
    refuse("\"" + std::string(text) + "\" is no sweep", "write KEY=VALUE,VALUE, as nodes=8,16,32");
  }
  axis.path = path_of(axis.name);
  return axis;
}

std::vector<std::vector<std::string>> sweep_points(const std::vector<SweepAxis>& axes) {
  std::vector<std::vector<std::string>> points = {{}};
  for (const SweepAxis& axis : axes) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& point : points) {
      for (const std::string& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

}  // namespace nqd::planner::search
