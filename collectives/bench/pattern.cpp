#include "collectives/bench/pattern.h"

#include <algorithm>
#include <cstring>

#include "collectives/element.h"

namespace nqd::collectives {
namespace {

// A prime, so that no chunk boundary or stride falls into step with it.
constexpr std::size_t kPeriod = 509;
constexpr std::uint32_t kValues = 16;
constexpr std::size_t kContributors = 8;

// The finalizer of MurmurHash3: neighbours get unrelated values.
std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace

Pattern::Pattern(DType type, ReduceOp op, std::size_t ranks) : type_(type), op_(op), ranks_(ranks) {
  std::vector<double> values(kPeriod);
  for (std::size_t i = 0; i < kPeriod; ++i) values[i] = reduced(i);
  expected_ = encode(values);
}

double Pattern::value(std::size_t rank, std::size_t element) const {
  const bool contributes = (element + rank) % ranks_ < kContributors;
  const std::uint32_t mixed = mix(static_cast<std::uint32_t>(rank * kPeriod + element));
  if (op_ == ReduceOp::kProd) return contributes && mixed % 2 == 0 ? 2 : 1;
  return contributes ? 1 + mixed % kValues : 0;
}

double Pattern::reduced(std::size_t element) const {
  double result = value(0, element);
  for (std::size_t rank = 1; rank < ranks_; ++rank) {
    const double next = value(rank, element);
    switch (op_) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result += next;
        break;
      case ReduceOp::kProd:
        result *= next;
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
    }
  }
  if (op_ != ReduceOp::kAvg) return result;
  // bfloat16 divides in float32, and rounding twice is not rounding once.
  if (type_ == DType::kFloat64) return result / static_cast<double>(ranks_);
  return static_cast<float>(result) / static_cast<float>(ranks_);
}

std::vector<std::byte> Pattern::encode(const std::vector<double>& values) const {
  std::vector<std::byte> bytes(values.size() * size_bytes(type_));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(bytes.data() + i * size_bytes(type_), type_, values[i]);
  }
  return bytes;
}

std::vector<std::byte> Pattern::input(std::size_t rank) const {
  std::vector<double> values(kPeriod);
  for (std::size_t i = 0; i < kPeriod; ++i) values[i] = value(rank, i);
  return encode(values);
}

void Pattern::fill_input(std::span<std::byte> data, std::size_t rank, std::size_t first) const {
  const std::vector<std::byte> period = input(rank);
  std::size_t from = first % kPeriod * size_bytes(type_);
  for (std::size_t done = 0; done < data.size(); from = 0) {
    const std::size_t bytes = std::min(period.size() - from, data.size() - done);
    std::memcpy(data.data() + done, period.data() + from, bytes);
    done += bytes;
  }
}

std::uint64_t Pattern::count_unlike(std::span<const std::byte> data, std::size_t first,
                                    const std::vector<std::byte>& period) const {
  const std::size_t element = size_bytes(type_);
  std::uint64_t unlike = 0;
  std::size_t from = first % kPeriod * element;
  for (std::size_t done = 0; done < data.size(); from = 0) {
    const std::size_t bytes = std::min(period.size() - from, data.size() - done);
    if (std::memcmp(data.data() + done, period.data() + from, bytes) != 0) {
      for (std::size_t at = 0; at < bytes; at += element) {
        unlike += std::memcmp(data.data() + done + at, period.data() + from + at, element) != 0;
      }
    }
    done += bytes;
  }
  return unlike;
}

std::uint64_t Pattern::count_unlike_input(std::span<const std::byte> data, std::size_t rank,
                                          std::size_t first) const {
  return count_unlike(data, first, input(rank));
}

std::uint64_t Pattern::count_wrong(std::span<const std::byte> data, std::size_t first) const {
  return count_unlike(data, first, expected_);
}

}  // namespace nqd::collectives
