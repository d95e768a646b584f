// The device line on a GPU, in builds with CUDA; no_cuda_device.cpp answers in others.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/device/device.h"

namespace nqd::engine {

// CUDA device `index` for the calling thread, which alone may use it. `plan` says what memory was
// planned, for the error that it did not suffice. Throws Error (kEnvironment, NQD3060) where there
// is no such device.
std::unique_ptr<Device> make_cuda_device(int index, std::function<std::string()> plan);

}  // namespace nqd::engine
