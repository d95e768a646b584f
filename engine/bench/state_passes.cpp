#include "engine/bench/state_passes.h"

namespace nqd::engine {

using planner::Kernel;

KernelAction state_pass(const planner::KernelCall& call, OperandLayout& layout, Device& device) {
  const std::int64_t count = call.m * call.n;
  const std::int64_t w = layout.add<float>(count), g = layout.add<float>(count);
  const std::int64_t m = layout.add<float>(count), v = layout.add<float>(count);
  const auto all = [=](std::byte* copy, std::int64_t offset) {
    return span_at<float>(copy, offset, 0, count);
  };
  switch (call.kernel) {
    case Kernel::kFill:
      return [=, &device](std::byte* copy) { device.zero(at<float>(copy, g), count); };
    case Kernel::kAdd:
      return [=, &device](std::byte* copy) {
        device.add(at<float>(copy, w), at<float>(copy, g), count);
      };
    case Kernel::kSquares:
      return [=, &device](std::byte* copy) {
        ExactSum sum;
        device.add_squares(sum, at<float>(copy, g), count);
        device.collect();
      };
    case Kernel::kAdamw:
      return [=, &device](std::byte* copy) {
        device.adamw_step(all(copy, w), all(copy, g), all(copy, m), all(copy, v), 1, {}, {});
      };
    default:
      return [=, &device](std::byte* copy) {
        device.sgd_step(all(copy, w), all(copy, g), all(copy, m), {}, {});
      };
  }
}

}  // namespace nqd::engine
