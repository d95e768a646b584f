#include "planner/import/published/shipped.h"

#include <nlohmann/json.hpp>

namespace nqd::planner {

// In the generated file.
std::string_view shipped_left_out_text();

ShippedLeftOut shipped_left_out() {
  const nlohmann::json root = nlohmann::json::parse(shipped_left_out_text());
  ShippedLeftOut result;
  result.constants = root.at("constants").get<std::string>();
  for (const nlohmann::json& table : root.at("tables")) {
    result.tables.push_back({table.at("file").get<std::string>(),
                             table.at("rows").get<std::int64_t>(),
                             table.at("mean_abs_error_pct").get<double>() / 100,
                             table.at("max_abs_error_pct").get<double>() / 100});
  }
  return result;
}

}  // namespace nqd::planner
