// Passes over the elements of gradients and optimizer state, as the store and the update call them.
#pragma once

#include "engine/bench/operands.h"
#include "engine/device/device.h"
#include "planner/reference/kernels.h"

namespace nqd::engine {

// Of kFill, kAdd, kSquares, kAdamw and kSgd, in float32. `layout` gets the operands.
KernelAction state_pass(const planner::KernelCall& call, OperandLayout& layout, Device& device);

}  // namespace nqd::engine
