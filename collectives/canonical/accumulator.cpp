#include "collectives/canonical/accumulator.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "collectives/reduce_ops.h"

namespace nqd::collectives {
namespace {

// The NaN that the machine's own arithmetic makes, which a compiler need not know.
template <typename Value>
Value machine_nan() {
  volatile Value infinity = std::numeric_limits<Value>::infinity();
  return infinity - infinity;
}

// Elements that pass through all additions together: what lies between two of them stays in the
// first-level cache, and of the vectors that one contribution completes only the last is written.
constexpr std::size_t kBlock = 1024;

template <typename T>
void add_values(std::span<std::byte* const> sums, const T* from, std::size_t count) {
  using Value = typename AccumulateIn<T>::Type;
  const Value nan = machine_nan<Value>();
  alignas(64) Value block[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t length = std::min(kBlock, count - begin);
    for (std::size_t i = 0; i < length; ++i) {
      const Value value = AccumulateIn<T>::widen(from[begin + i]);
      block[i] = value == value ? value : nan;
    }
    for (std::byte* const bytes : sums) {
      Value* const sum = reinterpret_cast<Value*>(bytes);
      Value* const out = bytes == sums.back() ? sum + begin : block;
      for (std::size_t i = 0; i < length; ++i) out[i] = sum[begin + i] + block[i];
    }
  }
}

// The same with nothing to add to.
template <typename T>
void store(typename AccumulateIn<T>::Type* to, const T* from, std::size_t count) {
  using Value = typename AccumulateIn<T>::Type;
  const Value nan = machine_nan<Value>();
  for (std::size_t i = 0; i < count; ++i) {
    const Value value = AccumulateIn<T>::widen(from[i]);
    to[i] = value == value ? value : nan;
  }
}

[[noreturn]] void throw_misfit(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD2103", message, hint);
}

std::string words(const IndexRange& range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

}  // namespace

void add_through(std::span<std::byte* const> sums, std::span<const std::byte> contribution,
                 DType type) {
  visit_type(type, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<typename AccumulateIn<T>::Type>) {
      add_values(sums, reinterpret_cast<const T*>(contribution.data()),
                 contribution.size() / sizeof(T));
    }
  });
}

Accumulator::Accumulator(const IndexRange& range, std::size_t total, std::size_t count, DType type,
                         MemoryLedger* ledger)
    : range_(range),
      total_(total),
      count_(count),
      type_(type),
      ledger_(ledger),
      next_(range.begin) {
  if (type != DType::kFloat32 && type != DType::kFloat64) {
    throw_misfit("canonical sums of " + std::string(name(type)) + " are not accumulated",
                 "accumulate in float32 (half-width contributions too) or float64; sums of "
                 "integers are the same in every order");
  }
  if (range.begin > range.end || range.end > total) {
    throw_misfit("contributions " + words(range) + " are not among " + std::to_string(total),
                 "give each rank a part of [0, total)");
  }
}

Accumulator::Accumulator(const IndexRange& range, std::size_t total, std::size_t count, DType type,
                         std::span<const std::span<std::byte>> sums)
    : Accumulator(range, total, count, type) {
  nodes_ = maximal_nodes(range, total);
  next_ = range.end;
  vectors_.assign(sums.begin(), sums.end());
  const bool fits = std::all_of(sums.begin(), sums.end(), [&](const std::span<std::byte>& sum) {
    return sum.size() == count * size_bytes(type);
  });
  if (fits && sums.size() == nodes_.size()) return;
  throw_misfit(std::to_string(sums.size()) + " sums for " + std::to_string(nodes_.size()) +
                   " nodes of " + std::to_string(count) + " elements, or of other lengths",
               "give one vector of all elements a node");
}

void Accumulator::check(std::span<const std::byte> contribution, DType type) const {
  if (is_complete()) {
    throw_misfit("contributions " + words(range_) + " were all added, and one more is",
                 "add one for each index of the range, and restart before the next sum");
  }
  const bool widens =
      type_ == DType::kFloat32 && (type == DType::kBFloat16 || type == DType::kFloat16);
  if ((type != type_ && !widens) || contribution.size() != count_ * size_bytes(type)) {
    throw_misfit("a contribution of " + std::to_string(contribution.size()) + " bytes of " +
                     std::string(name(type)) + " to a sum of " + std::to_string(count_) +
                     " elements of " + std::string(name(type_)),
                 "give as many elements, of the type of the sum or of a half-width float");
  }
}

void Accumulator::put(std::size_t index, std::span<const std::byte> contribution, DType type) {
  if (index == vectors_.size()) {
    Buffer& made =
        owned_.emplace_back(ledger_, MemoryTag::kCommunication, count_ * size_bytes(type_));
    vectors_.emplace_back(made.data(), made.size());
  }
  visit_type(type, [&]<typename T>(T) {
    using Value = typename AccumulateIn<T>::Type;
    if constexpr (std::is_floating_point_v<Value>) {
      store(reinterpret_cast<Value*>(vectors_[index].data()),
            reinterpret_cast<const T*>(contribution.data()), count_);
    }
  });
}

void Accumulator::add(std::span<const std::byte> contribution, DType type) {
  check(contribution, type);
  IndexRange node{next_, next_ + 1};
  std::size_t kept = nodes_.size();
  while (kept > 0 && are_siblings(nodes_[kept - 1], node, total_)) {
    node.begin = nodes_[--kept].begin;
  }
  std::vector<std::byte*> sums;
  for (std::size_t i = nodes_.size(); i > kept; --i) sums.push_back(vectors_[i - 1].data());
  if (sums.empty()) {
    put(kept, contribution, type);
  } else {
    add_through(sums, contribution, type);
  }
  nodes_.resize(kept);
  nodes_.push_back(node);
  ++next_;
}

void Accumulator::restart() {
  nodes_.clear();
  next_ = range_.begin;
}

std::span<const std::byte> Accumulator::vector(std::size_t node) const { return vectors_[node]; }

std::span<std::byte> Accumulator::vector(std::size_t node) { return vectors_[node]; }

}  // namespace nqd::collectives
