// Bodies that compute every element by itself.
//
// An Op has kName, kWidth (elements that a thread takes at a time) and
//   at<Block, kWidth>(i)  computes elements [i, i + kWidth); kWidth is the Op's own or 1.
#pragma once

#include "engine/cuda/kernels/body.h"

namespace nqd::engine::cuda::bodies {

template <typename Op, int kWidth>
struct Elements {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = Op::kName;
  Op op;
  std::int64_t n;

  std::int64_t blocks() const { return divide_up(n, kThreads * kWidth); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::int64_t first = (block.index() * kThreads + thread) * kWidth;
      if (first + kWidth <= n) {
        op.template at<Block, kWidth>(first);
        return;
      }
      for (std::int64_t i = first; i < n; ++i) op.template at<Block, 1>(i);
    });
  }
};

// `packed`: n elements may be accessed by 16 bytes, from the first one on.
template <typename Run, typename Op>
void run_elements(const Run& run, const Op& op, std::int64_t n, bool packed) {
  if (packed) {
    run(Elements<Op, Op::kWidth>{op, n});
  } else {
    run(Elements<Op, 1>{op, n});
  }
}

}  // namespace nqd::engine::cuda::bodies
