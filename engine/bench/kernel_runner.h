// Runs single kernels of the training engine on operands of their own, as its layers call them.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/bench/operands.h"
#include "engine/device/device.h"
#include "planner/reference/kernels.h"
#include "planner/spec.h"

namespace nqd::engine {

class KernelRunner {
 public:
  // Kernels in the numerics and the storage type of `config`, a decoder on one rank (dp = tp =
  // pp = 1), on `device`. Both must outlive this object.
  KernelRunner(const planner::Config& config, Device& device);
  ~KernelRunner();

  // `call` must be one of the config's own: of its widths, or a pass of any size. At least two
  // copies of the operands, and as many as `rotate_bytes` hold. Must not outlive this object. On a
  // device that works beside the host a run is asked for when it returns, not done.
  std::unique_ptr<KernelCase> prepare(const planner::KernelCall& call, std::int64_t rotate_bytes);

  class Impl;  // by storage type

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace nqd::engine
