#include "engine/cpu/dropout.h"

#include <algorithm>

#include "engine/cpu/dropout_stream.h"

namespace nqd::engine::cpu {
namespace {

constexpr std::int64_t kLanesOfBlock = 16;
constexpr std::int64_t kGroup = 64;  // elements of 16 Philox blocks

// The words of elements 64 · group … 64 · group + 63.
void group_words(std::uint32_t* words, const DropoutStream& stream, std::int64_t group) {
  for (std::int64_t lane = 0; lane < kLanesOfBlock; ++lane) {
    const auto block = static_cast<std::uint64_t>(group * kLanesOfBlock + lane);
    const PhiloxCounter word = stream.words(block);
    for (std::int64_t i = 0; i < 4; ++i) {
      words[i * kLanesOfBlock + lane] = word[static_cast<std::size_t>(i)];
    }
  }
}

// Calls use(offset in the run, factors, how many) for the groups that [first, first + n) touches.
template <typename T, typename Use>
void for_each_group(const Dropout& dropout, std::int64_t first, std::int64_t n, const Use& use) {
  const DropoutStream stream = stream_of(dropout).now();
  // Copies in registers: `factors` might alias the stream.
  const std::uint64_t threshold = stream.threshold;
  const auto kept = static_cast<T>(stream.kept);
  std::uint32_t words[kGroup];
  T factors[kGroup];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t element = first + done;
    const std::int64_t skip = element % kGroup;
    const std::int64_t count = std::min(kGroup - skip, n - done);
    group_words(words, stream, element / kGroup);
    for (std::int64_t i = 0; i < kGroup; ++i) factors[i] = words[i] >= threshold ? kept : T(0);
    use(done, factors + skip, count);
    done += count;
  }
}

}  // namespace

template <typename T>
void dropout_factors(T* out, const Dropout& dropout, std::int64_t first, std::int64_t n) {
  for_each_group<T>(dropout, first, n,
                    [out](std::int64_t at, const T* factors, std::int64_t count) {
                      std::copy_n(factors, count, out + at);
                    });
}

template <typename S>
void apply_dropout(S* y, const S* x, const Dropout& dropout, std::int64_t first, std::int64_t n) {
  using T = Compute<S>;
  for_each_group<T>(dropout, first, n, [=](std::int64_t at, const T* factors, std::int64_t count) {
    T values[kGroup];
    for (std::int64_t i = 0; i < count; ++i) values[i] = widen(x[at + i]) * factors[i];
    for (std::int64_t i = 0; i < count; ++i) y[at + i] = narrow<S>(values[i]);
  });
}

template void dropout_factors<float>(float*, const Dropout&, std::int64_t, std::int64_t);
template void dropout_factors<double>(double*, const Dropout&, std::int64_t, std::int64_t);
template void apply_dropout<float>(float*, const float*, const Dropout&, std::int64_t,
                                   std::int64_t);
template void apply_dropout<double>(double*, const double*, const Dropout&, std::int64_t,
                                    std::int64_t);
template void apply_dropout<BFloat16>(BFloat16*, const BFloat16*, const Dropout&, std::int64_t,
                                      std::int64_t);
template void apply_dropout<Float16>(Float16*, const Float16*, const Dropout&, std::int64_t,
                                     std::int64_t);

}  // namespace nqd::engine::cpu
