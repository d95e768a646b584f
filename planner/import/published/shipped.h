// The tables in configs/published/, embedded so that the binary needs no files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::planner {

struct ShippedFile {
  std::string_view name;  // "sc21_megatron.json"
  std::string_view text;
};
// In alphabetical order.
std::span<const ShippedFile> shipped_tables();

// How a table's step times are predicted with constants that were fitted to the other tables.
struct LeftOut {
  std::string file;
  std::int64_t rows = 0;
  double mean_abs_error = 0;  // share; suspect rows are not counted
  double max_abs_error = 0;
};
// configs/published/leave-one-out.json: what `nqd validate-model --leave-one-out` found, which
// takes minutes, with the digest of the constants that it started from (constants_digest).
struct ShippedLeftOut {
  std::string constants;
  std::vector<LeftOut> tables;
};
ShippedLeftOut shipped_left_out();

}  // namespace nqd::planner
