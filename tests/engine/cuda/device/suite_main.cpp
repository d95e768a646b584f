// The suite that needs a device: without one it says why and counts as skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "engine/cuda/device.h"

int main(int argc, char** argv) {
  const nqd::engine::CudaStatus status = nqd::engine::cuda_status();
  if (status.devices.empty()) {
    std::cout << "SKIP: no CUDA device: " << status.reason << "\n";
    return 77;  // SKIP_RETURN_CODE
  }
  std::cout << status.devices.front().name << "\n";
  return doctest::Context(argc, argv).run();
}
