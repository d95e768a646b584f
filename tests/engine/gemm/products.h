// Products with random operands, and the definition of the fixed order to hold results against.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/gemm/fixed/kernels.h"

namespace nqd::engine::test {

// A row-major matrix of a type, with elements around it that no product may write.
class Stored {
 public:
  Stored(DType type, std::int64_t rows, std::int64_t columns, std::int64_t stride,
         std::int64_t offset, std::mt19937& random)
      : type_(type), rows_(rows), columns_(columns), stride_(stride), offset_(offset) {
    bytes_.resize(static_cast<std::size_t>(offset + rows * stride + 16) * size_bytes(type));
    std::normal_distribution<float> values;
    const auto count = static_cast<std::int64_t>(bytes_.size() / size_bytes(type));
    for (std::int64_t i = 0; i < count; ++i) set_flat(i, values(random));
  }

  DType type() const { return type_; }
  std::int64_t stride() const { return stride_; }
  std::int64_t columns() const { return columns_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  void* data() { return bytes_.data() + static_cast<std::size_t>(offset_) * size_bytes(type_); }
  const void* data() const {
    return bytes_.data() + static_cast<std::size_t>(offset_) * size_bytes(type_);
  }
  const void* at(std::int64_t row, std::int64_t column) const {
    return static_cast<const std::byte*>(data()) +
           static_cast<std::size_t>(row * stride_ + column) * size_bytes(type_);
  }

  float get(std::int64_t row, std::int64_t column) const {
    const void* const place = at(row, column);
    if (type_ == DType::kFloat32) return read<float>(place);
    if (type_ == DType::kBFloat16) return to_float(read<BFloat16>(place));
    return to_float(read<Float16>(place));
  }
  void set(std::int64_t row, std::int64_t column, float value) {
    set_flat(offset_ + row * stride_ + column, value);
  }

 private:
  template <typename T>
  static T read(const void* place) {
    T value;
    std::memcpy(&value, place, sizeof value);
    return value;
  }
  template <typename T>
  void write(std::int64_t i, T value) {
    std::memcpy(bytes_.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
  }
  void set_flat(std::int64_t i, float value) {
    if (type_ == DType::kFloat32) {
      write(i, value);
    } else if (type_ == DType::kBFloat16) {
      write(i, to_bfloat16(value));
    } else {
      write(i, to_float16(value));
    }
  }

  DType type_;
  std::int64_t rows_, columns_, stride_, offset_;
  std::vector<std::byte> bytes_;
};

// One product with operands of its own. Operands are held as stored, so transposed ones have their
// sides swapped.
struct Case {
  FixedProduct product;  // without pointers
  Stored a, b, c;

  FixedProduct with_pointers() {
    FixedProduct result = product;
    result.a = {a.data(), a.stride(), product.a.op, a.type()};
    result.b = {b.data(), b.stride(), product.b.op, b.type()};
    result.c = {c.data(), c.stride(), c.type()};
    return result;
  }
  float a_at(std::int64_t i, std::int64_t k) const {
    return product.a.op == Transpose::kNo ? a.get(i, k) : a.get(k, i);
  }
  float b_at(std::int64_t k, std::int64_t j) const {
    return product.alpha * (product.b.op == Transpose::kNo ? b.get(k, j) : b.get(j, k));
  }
};

inline Case make_case(const FixedProduct& product, std::mt19937& random, std::int64_t padding = 0,
                      std::int64_t offset = 0) {
  const auto stored = [&](DType type, Transpose op, std::int64_t rows, std::int64_t columns) {
    if (op == Transpose::kYes) std::swap(rows, columns);
    return Stored(type, rows, columns, columns + padding, offset, random);
  };
  return {product, stored(product.a.type, product.a.op, product.m, product.k),
          stored(product.b.type, product.b.op, product.k, product.n),
          stored(product.c.type, Transpose::kNo, product.m, product.n)};
}

// The contract of fixed_gemm.h, word for word.
class Definition {
 public:
  explicit Definition(const Case& c) : c_(c) {}

  float element(std::int64_t i, std::int64_t j) const {
    const FixedProduct& p = c_.product;
    const float before = p.accumulate ? c_.c.get(i, j) : 0.0F;
    if (p.slices.total == 1) return chain(before, i, j, 0, p.k);
    const float sum = tree(i, j, 0, p.slices.count());
    return p.accumulate ? before + sum : sum;
  }

 private:
  float chain(float sum, std::int64_t i, std::int64_t j, std::int64_t begin,
              std::int64_t end) const {
    for (std::int64_t k = begin; k < end; ++k) sum = std::fma(c_.a_at(i, k), c_.b_at(k, j), sum);
    return sum;
  }
  float tree(std::int64_t i, std::int64_t j, std::int64_t first, std::int64_t count) const {
    if (count == 1) {
      const std::int64_t width = c_.product.slices.width;
      return chain(0.0F, i, j, std::min(first * width, c_.product.k),
                   std::min((first + 1) * width, c_.product.k));
    }
    const auto left =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count - 1)));
    return tree(i, j, first, left) + tree(i, j, first + left, count - left);
  }

  const Case& c_;
};

// What the whole of C, with what lies around it, must be.
inline Stored expected(const Case& c) {
  Stored result = c.c;
  const Definition definition(c);
  for (std::int64_t i = 0; i < c.product.m; ++i) {
    for (std::int64_t j = 0; j < c.product.n; ++j) result.set(i, j, definition.element(i, j));
  }
  return result;
}

// Every kernel that this machine runs.
inline std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const char* name : {"portable", "avx2", "avx512"}) {
    if (fixed::find_kernels(name) != nullptr) names.emplace_back(name);
  }
  return names;
}

inline std::string describe(const FixedProduct& p) {
  const auto operand = [](const FixedInput& x) {
    return std::string(x.op == Transpose::kYes ? "T " : "N ") + std::string(name(x.type));
  };
  return std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k) + ", " +
         operand(p.a) + ", " + operand(p.b) + " to " + std::string(name(p.c.type)) + ", alpha " +
         std::to_string(p.alpha) + (p.accumulate ? ", accumulate" : "") + ", slices [" +
         std::to_string(p.slices.first) + ", " + std::to_string(p.slices.last) + ") of " +
         std::to_string(p.slices.total) + " x " + std::to_string(p.slices.width);
}

}  // namespace nqd::engine::test
