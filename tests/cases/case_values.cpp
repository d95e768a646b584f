#include "tests/cases/case_values.h"

#include <algorithm>
#include <cstdint>

#include "collectives/element.h"

namespace nqd::collectives {
namespace {

double rounded(double value, DType type) {
  Values one(type, 1);
  one.set(0, value);
  return one.get(0);
}

}  // namespace

double input_value(ReduceOp op, std::size_t rank, std::size_t element) {
  if (op == ReduceOp::kProd) return 1 + static_cast<double>((rank + element) % 2);
  return static_cast<double>((7 * element + 3 * rank + rank * element) % 13);
}

double expected_value(ReduceOp op, std::size_t ranks, std::size_t element, DType type) {
  double result = input_value(op, 0, element);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const double value = input_value(op, rank, element);
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) result += value;
    if (op == ReduceOp::kProd) result *= value;
    if (op == ReduceOp::kMin) result = std::min(result, value);
    if (op == ReduceOp::kMax) result = std::max(result, value);
  }
  if (op != ReduceOp::kAvg) return rounded(result, type);
  if (type == DType::kFloat64) return result / static_cast<double>(ranks);
  return rounded(static_cast<float>(result) / static_cast<float>(ranks), type);
}

Values::Values(DType type, std::size_t count, Memory memory) : type_(type) {
  const std::size_t bytes = count * size_bytes(type);
  if (memory == Memory::kShared) {
    shared_ = SharedBuffer(nullptr, MemoryTag::kWorkspace, bytes);
    bytes_ = {shared_.data(), bytes};
  } else {
    private_.resize(bytes);
    bytes_ = private_;
  }
}

bool Values::operator==(const Values& other) const {
  return type_ == other.type_ && std::ranges::equal(bytes_, other.bytes_);
}

void Values::set(std::size_t index, double value) {
  store_element(bytes_.data() + index * size_bytes(type_), type_, value);
}

double Values::get(std::size_t index) const {
  return load_element(bytes_.data() + index * size_bytes(type_), type_);
}

void fill_input(Values& values, ReduceOp op, std::size_t rank, std::size_t offset) {
  for (std::size_t i = 0; i < values.count(); ++i) values.set(i, input_value(op, rank, offset + i));
}

}  // namespace nqd::collectives
