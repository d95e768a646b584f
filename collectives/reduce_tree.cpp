#include "collectives/reduce_tree.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/reduce_ops.h"

namespace nqd::collectives {
namespace {

// Elements that pass through the tree together: their accumulators stay in the first-level cache.
template <typename T>
inline constexpr std::size_t kBlock = 4096 / sizeof(typename AccumulateIn<T>::Type);

template <typename T, typename Op>
class Tree {
 public:
  using Widen = AccumulateIn<T>;
  using Value = typename Widen::Type;

  Tree(std::span<const std::byte* const> sources, Op op) : sources_(sources), op_(op) {}

  // The reduction of elements [begin, begin + count) of all sources, count <= kBlock<T>.
  void reduce(std::size_t begin, std::size_t count, Value* result) const {
    reduce(0, sources_.size(), begin, count, result);
  }

 private:
  const T* at(std::size_t source, std::size_t begin) const {
    return reinterpret_cast<const T*>(sources_[source]) + begin;
  }

  void reduce(std::size_t first, std::size_t n, std::size_t begin, std::size_t count,
              Value* result) const {
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
    reduce(first, left, begin, count, result);
    reduce(first + left, n - left, begin, count, right);
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

template <typename T, typename Op>
void run(std::span<std::byte* const> outs, std::span<const std::byte* const> sources,
         std::size_t bytes, Op op, std::size_t divisor, bool streaming) {
  const Tree<T, Op> tree(sources, op);
  const std::size_t total = bytes / sizeof(T);
  alignas(64) typename AccumulateIn<T>::Type values[kBlock<T>];
  alignas(64) T narrow[kBlock<T>];
  for (std::size_t begin = 0; begin < total; begin += kBlock<T>) {
    const std::size_t count = std::min(kBlock<T>, total - begin);
    tree.reduce(begin, count, values);
    const std::byte* const block = finished<T>(values, count, divisor, narrow);
    for (std::byte* const out : outs) {
      if (streaming) {
        stream_copy(out + begin * sizeof(T), block, count * sizeof(T));
      } else {
        std::memcpy(out + begin * sizeof(T), block, count * sizeof(T));
      }
    }
  }
}

}  // namespace

void reduce_tree(std::span<std::byte* const> outs, std::span<const std::byte* const> sources,
                 std::size_t bytes, DType type, ReduceOp op, bool streaming) {
  const std::size_t divisor = op == ReduceOp::kAvg ? sources.size() : 1;
  visit_type(type, [&]<typename T>(T) {
    visit_op(op,
             [&](auto operation) { run<T>(outs, sources, bytes, operation, divisor, streaming); });
  });
}

#if defined(__SSE2__)

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kVector = sizeof(__m128i);
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(to) % kVector;
  const std::size_t head = std::min(bytes, misplaced == 0 ? 0 : kVector - misplaced);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + kVector <= bytes; done += kVector) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + done),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done)));
  }
  std::memcpy(to + done, from + done, bytes - done);
}

void stream_fence() { _mm_sfence(); }

#else

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void stream_fence() {}

#endif

}  // namespace nqd::collectives
