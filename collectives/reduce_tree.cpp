#include "collectives/reduce_tree.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/reduce_ops.h"
#include "collectives/stream.h"

namespace nqd::collectives {
namespace {

// Elements that pass through the tree together. So few that reads and writes of memory mix: with
// blocks of 4 KiB an all_reduce of 16 MiB on 2 ranks takes 2.4 times as long.
template <typename T>
inline constexpr std::size_t kBlock = 512 / sizeof(typename AccumulateIn<T>::Type);

template <typename T, typename Op>
class Tree {
 public:
  using Widen = AccumulateIn<T>;
  using Value = typename Widen::Type;

  Tree(std::span<const std::byte* const> sources, Op op) : sources_(sources), op_(op) {}

  // The reduction of elements [begin, begin + count) of all sources; kBlock<T> elements, or `count`
  // of them where not kWhole.
  template <bool kWhole>
  void reduce(std::size_t begin, std::size_t count, Value* result) const {
    reduce<kWhole>(0, sources_.size(), begin, count, result);
  }

 private:
  const T* at(std::size_t source, std::size_t begin) const {
    return reinterpret_cast<const T*>(sources_[source]) + begin;
  }

  template <bool kWhole>
  void reduce(std::size_t first, std::size_t n, std::size_t begin, std::size_t up_to,
              Value* result) const {
    const std::size_t count = kWhole ? kBlock<T> : up_to;
    if (n == 1) {
      const T* const a = at(first, begin);
      for (std::size_t i = 0; i < count; ++i) result[i] = Widen::widen(a[i]);
      return;
    }
    if (n == 2) {
      const T* const a = at(first, begin);
      const T* const b = at(first + 1, begin);
      for (std::size_t i = 0; i < count; ++i) {
        result[i] = op_(Widen::widen(a[i]), Widen::widen(b[i]));
      }
      return;
    }
    const std::size_t left = std::bit_floor(n - 1);
    alignas(64) Value right[kBlock<T>];
    reduce<kWhole>(first, left, begin, count, result);
    reduce<kWhole>(first + left, n - left, begin, count, right);
    for (std::size_t i = 0; i < count; ++i) result[i] = op_(result[i], right[i]);
  }

  std::span<const std::byte* const> sources_;
  Op op_;
};

template <typename T>
const std::byte* finished(typename AccumulateIn<T>::Type* values, std::size_t count,
                          std::size_t divisor, T* narrow) {
  using Value = typename AccumulateIn<T>::Type;
  if constexpr (std::is_floating_point_v<Value>) {
    const auto by = static_cast<Value>(divisor);
    if (divisor > 1) {
      for (std::size_t i = 0; i < count; ++i) values[i] /= by;
    }
  }
  if constexpr (std::is_same_v<T, Value>) {
    return reinterpret_cast<const std::byte*>(values);
  } else {
    for (std::size_t i = 0; i < count; ++i) narrow[i] = AccumulateIn<T>::narrow(values[i]);
    return reinterpret_cast<const std::byte*>(narrow);
  }
}

// Reduces elements [begin, begin + up_to) into every output.
template <bool kWhole, typename T, typename Op>
void run_block(const Tree<T, Op>& tree, std::span<std::byte* const> outs, std::size_t begin,
               std::size_t up_to, std::size_t divisor, std::size_t streamed) {
  const std::size_t count = kWhole ? kBlock<T> : up_to;
  alignas(64) typename AccumulateIn<T>::Type values[kBlock<T>];
  alignas(64) T narrow[kBlock<T>];
  tree.template reduce<kWhole>(begin, count, values);
  const std::byte* const block = finished<T>(values, count, divisor, narrow);
  for (std::size_t k = 0; k < outs.size(); ++k) {
    std::byte* const to = outs[k] + begin * sizeof(T);
    if (k < streamed) {
      stream_copy(to, block, count * sizeof(T));
    } else {
      std::memcpy(to, block, count * sizeof(T));
    }
  }
}

template <typename T, typename Op>
void run(std::span<std::byte* const> outs, std::span<const std::byte* const> sources,
         std::size_t bytes, Op op, std::size_t divisor, std::size_t streamed) {
  const Tree<T, Op> tree(sources, op);
  const std::size_t total = bytes / sizeof(T);
  std::size_t begin = 0;
  for (; begin + kBlock<T> <= total; begin += kBlock<T>) {
    run_block<true>(tree, outs, begin, kBlock<T>, divisor, streamed);
  }
  if (begin < total) run_block<false>(tree, outs, begin, total - begin, divisor, streamed);
}

}  // namespace

void reduce_tree(std::span<std::byte* const> outs, std::span<const std::byte* const> sources,
                 std::size_t bytes, DType type, ReduceOp op, std::size_t streamed) {
  const std::size_t divisor = op == ReduceOp::kAvg ? sources.size() : 1;
  visit_type(type, [&]<typename T>(T) {
    visit_op(op,
             [&](auto operation) { run<T>(outs, sources, bytes, operation, divisor, streamed); });
  });
}

}  // namespace nqd::collectives
