#include "engine/cuda/error.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace nqd::engine::cuda {
namespace {

// By the numbers of cudaError_t, which are part of the runtime's interface: this file needs no
// vendor header, and is tested where there is none.
constexpr std::array kSticky = {
    214,  // EccUncorrectable
    220,  // NvlinkUncorrectable
    700,  // IllegalAddress
    702,  // LaunchTimeout
    709,  // ContextIsDestroyed
    710,  // Assert
    714,  // HardwareStackError
    715,  // IllegalInstruction
    716,  // MisalignedAddress
    717,  // InvalidAddressSpace
    718,  // InvalidPc
    719,  // LaunchFailure
    721,  // Contained
    723,  // TensorMemoryLeak
    812,  // MpsClientTerminated
    999,  // Unknown
};

std::string place(const FailedCall& failed) {
  std::string text;
  if (failed.rank >= 0) text += "rank " + std::to_string(failed.rank) + ", ";
  if (failed.device >= 0) text += "device " + std::to_string(failed.device) + ", ";
  return text + failed.file + ":" + std::to_string(failed.line);
}

}  // namespace

bool is_sticky(int error) { return std::ranges::find(kSticky, error) != kSticky.end(); }

void fail(const FailedCall& failed) {
  const std::string message = failed.call + " failed with " + failed.name + " (" +
                              std::to_string(failed.error) + ", " + failed.description +
                              "): " + place(failed);
  if (is_sticky(failed.error)) {
    throw Error(ExitCode::kFault, "NQD4061", message,
                "the context of this process is lost, so end it; `compute-sanitizer` finds the "
                "kernel, and `dmesg | grep Xid` says whether the device is at fault");
  }
  throw Error(ExitCode::kFault, "NQD4060", message, "`nqd doctor` says what is missing for CUDA");
}

void require_grid(std::int64_t blocks) {
  constexpr std::int64_t kLargestGrid = 0x7fffffff;
  if (blocks <= kLargestGrid) return;
  throw Error(ExitCode::kUsage, "NQD3062",
              "a kernel of " + std::to_string(blocks) + " blocks is more than a launch takes",
              "take a smaller micro-batch");
}

}  // namespace nqd::engine::cuda
