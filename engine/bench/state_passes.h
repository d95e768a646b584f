// Passes over the elements of gradients and optimizer state, shared by workers as the store shares
// them.
#pragma once

#include "engine/bench/operands.h"
#include "engine/threads/worker_pool.h"
#include "planner/reference/kernels.h"

namespace nqd::engine {

// Of kFill, kAdd, kSquares, kAdamw and kSgd, in float32. `layout` gets the operands.
KernelAction state_pass(const planner::KernelCall& call, OperandLayout& layout,
                        WorkerPool* workers);

}  // namespace nqd::engine
