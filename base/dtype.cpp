#include "base/dtype.h"

#include <array>

namespace nqd {

std::optional<DType> parse_dtype(std::string_view text) {
  constexpr std::array kAll = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                               DType::kInt32,   DType::kInt64,   DType::kUInt8};
  for (DType type : kAll) {
    if (text == name(type)) return type;
  }
  if (text == "float") return DType::kFloat32;
  if (text == "double") return DType::kFloat64;
  if (text == "bf16") return DType::kBFloat16;
  if (text == "half" || text == "fp16") return DType::kFloat16;
  return std::nullopt;
}

}  // namespace nqd
