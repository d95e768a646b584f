#include "engine/bench/state_passes.h"

#include <algorithm>

#include "engine/cpu/convert.h"
#include "engine/numerics/exact_sum.h"
#include "engine/optimizer/adamw.h"
#include "engine/optimizer/sgd.h"
#include "engine/parallel/store/share_out.h"

namespace nqd::engine {

using planner::Kernel;

KernelAction state_pass(const planner::KernelCall& call, OperandLayout& layout,
                        WorkerPool* workers) {
  const std::int64_t count = call.m * call.n;
  const std::int64_t w = layout.add<float>(count), g = layout.add<float>(count);
  const std::int64_t m = layout.add<float>(count), v = layout.add<float>(count);
  const auto of_parts = [=](auto&& work) {
    return [=](std::byte* copy) {
      share_out(workers, count,
                [&](int, std::int64_t begin, std::int64_t end) { work(copy, begin, end); });
    };
  };
  switch (call.kernel) {
    case Kernel::kFill:
      return of_parts([=](std::byte* copy, std::int64_t begin, std::int64_t end) {
        std::fill(at<float>(copy, g) + begin, at<float>(copy, g) + end, 0.0F);
      });
    case Kernel::kAdd:
      return of_parts([=](std::byte* copy, std::int64_t begin, std::int64_t end) {
        cpu::add_all(at<float>(copy, w) + begin, at<float>(copy, g) + begin, end - begin);
      });
    case Kernel::kSquares:
      return of_parts([=](std::byte* copy, std::int64_t begin, std::int64_t end) {
        ExactSum sum;
        sum.add_squares(span_at<float>(copy, g, begin, end));
      });
    case Kernel::kAdamw:
      return of_parts([=](std::byte* copy, std::int64_t begin, std::int64_t end) {
        adamw_step(span_at<float>(copy, w, begin, end), span_at<float>(copy, g, begin, end),
                   span_at<float>(copy, m, begin, end), span_at<float>(copy, v, begin, end), 1, {});
      });
    default:
      return of_parts([=](std::byte* copy, std::int64_t begin, std::int64_t end) {
        sgd_step(span_at<float>(copy, w, begin, end), span_at<float>(copy, g, begin, end),
                 span_at<float>(copy, m, begin, end), {});
      });
  }
}

}  // namespace nqd::engine
