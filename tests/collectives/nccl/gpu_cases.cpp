// The shared cases on the GPUs of this machine, ranks being threads: over NCCL with a GPU a rank
// (two ranks on one where NCCL takes that), and over staged buffers with three ranks on the first.
// Ends with 77, and the reason, where there is no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "collectives/device/staged.h"
#include "collectives/nccl/bootstrap.h"
#include "collectives/world.h"
#include "tests/cases/collectives_cases.h"

namespace nqd::collectives {
namespace {

using Buffers = StagingOptions::Buffers;
using Make = std::function<std::unique_ptr<Communicator>(Communicator& world)>;

int run_cases(const std::string& what, int ranks, const Make& make) {
  std::mutex mutex;
  int checks = 0;
  int failures = 0;
  run_threads(ranks, {}, [&](Communicator& world) {
    const CaseReport report = run_collectives_cases(*make(world));
    const std::lock_guard lock(mutex);
    checks += report.checks;
    for (const std::string& failure : report.failures) {
      ++failures;
      std::printf("%s: %s\n", what.c_str(), failure.c_str());
    }
  });
  std::printf("%s, %d ranks: %d checks, %d failures\n", what.c_str(), ranks, checks, failures);
  return failures;
}

int run_over_nccl(DeviceApi& device, NcclApi& nccl) {
  constexpr int kSharedFrom = 23000;  // NCCL 2.30
  const int devices = device.device_count();
  int ranks = std::min(devices, 4);
  if (ranks == 1 && nccl.version() >= kSharedFrom) {
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    ranks = 2;
  }
  return run_cases("NCCL " + nccl_version_text(nccl.version()), ranks,
                   [&](Communicator& world) -> std::unique_ptr<Communicator> {
                     StagingOptions options{.buffers = Buffers::kHost};
                     options.device = world.rank() % devices;
                     return std::make_unique<StagedCommunicator>(open_nccl(world, device, nccl, {}),
                                                                 device, options);
                   });
}

int run_staged(DeviceApi& device) {
  return run_cases("staged", 3, [&](Communicator& world) -> std::unique_ptr<Communicator> {
    auto inner = std::make_unique<StagedCommunicator>(world, device, StagingOptions{});
    return std::make_unique<StagedCommunicator>(std::move(inner), device,
                                                StagingOptions{.buffers = Buffers::kHost});
  });
}

constexpr int kSkipped = 77;

// Null where it cannot be opened.
NcclApi* opened_nccl() {
  try {
    return &nccl_api();
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kEnvironment) throw;
    std::printf("left out: NCCL: %s\n", error.what());
    return nullptr;
  }
}

// A machine without NCCL still has its staged cases, and is said to lack the others.
int run_all(DeviceApi& device) {
  int failures = run_staged(device);
  NcclApi* const nccl = opened_nccl();
  if (nccl != nullptr) failures += run_over_nccl(device, *nccl);
  if (failures > 0) return 1;
  return nccl != nullptr ? 0 : kSkipped;
}

int run() {
  try {
    return run_all(cuda_api());
  } catch (const Error& error) {
    const bool absent = error.exit_code() == ExitCode::kEnvironment;
    std::printf("%s: %s\n", absent ? "SKIP" : "failed", error.what());
    return absent ? kSkipped : 1;
  }
}

}  // namespace
}  // namespace nqd::collectives

int main() { return nqd::collectives::run(); }
