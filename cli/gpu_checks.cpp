#include "cli/gpu_checks.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/machine.h"
#include "base/units.h"
#include "collectives/nccl/nccl_library.h"
#include "collectives/nccl/topology.h"
#include "collectives/world.h"
#include "engine/cuda/cudnn/fused_attention.h"
#include "engine/cuda/device.h"

namespace nqd::cli {
namespace {

using reports::MachineCheck;

MachineCheck ok(std::string name, std::string detail) {
  return {std::move(name), "ok", std::move(detail), ""};
}
MachineCheck warn(std::string name, std::string detail, std::string advice) {
  return {std::move(name), "warn", std::move(detail), std::move(advice)};
}

// The NVIDIA driver of the kernel, "580.65.06"; empty where none is loaded.
std::string kernel_driver() {
  std::ifstream file(system_roots().proc / "driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Tue …"
  constexpr std::string_view kBefore = "Kernel Module";
  const std::size_t at = line.find(kBefore);
  if (at == std::string::npos) return "";
  const std::size_t first = line.find_first_not_of(' ', at + kBefore.size());
  if (first == std::string::npos) return "";
  return line.substr(first, line.find(' ', first) - first);
}

// Off in a build is no fault unless there is a GPU; asked for and unusable is.
MachineCheck check_cuda(const engine::CudaStatus& cuda) {
  const std::string driver = kernel_driver();
  if (!cuda.built) {
    if (driver.empty()) {
      return ok("CUDA", "off in this build (NQD_WITH_CUDA); ranks compute on CPUs");
    }
    return warn("CUDA", "off in this build, but the NVIDIA driver " + driver + " is loaded",
                "to compute on its GPUs: cmake --preset cuda && cmake --build --preset cuda");
  }
  const std::string runtime = "runtime " + cuda.runtime_version + ", ";
  if (cuda.driver_version.empty()) {
    return warn("CUDA", runtime + "no driver: " + cuda.reason,
                driver.empty()
                    ? "ranks compute on CPUs; install the NVIDIA driver, which brings libcuda.so.1"
                    : "the kernel has driver " + driver +
                          ", but this process finds no libcuda.so.1: start the container with "
                          "--gpus all (NVIDIA container toolkit), or mend LD_LIBRARY_PATH");
  }
  const std::string versions = runtime + "driver for " + cuda.driver_version + ", ";
  if (cuda.devices.empty()) {
    return warn("CUDA", versions + cuda.reason,
                "ranks compute on CPUs; `nvidia-smi` says what the driver sees, "
                "CUDA_VISIBLE_DEVICES hides devices, and a driver older than the runtime must be "
                "replaced");
  }
  const engine::CudaDevice& first = cuda.devices.front();
  const std::string detail = versions + std::to_string(cuda.devices.size()) + " x " + first.name +
                             " (sm_" + std::to_string(first.major * 10 + first.minor) + ", " +
                             format_bytes(static_cast<double>(first.memory_bytes)) + ")";
  // The oldest that kernels are compiled for: CMAKE_CUDA_ARCHITECTURES of the cuda preset.
  if (first.major < 8) return warn("CUDA", detail, "kernels are compiled for sm_80 and later");
  return ok("CUDA", detail);
}

MachineCheck check_products() {
  const engine::CudaProductLibrary library = engine::cuda_product_library();
  if (!library.version.empty()) return ok("cuBLASLt", library.version);
  return warn("cuBLASLt", library.reason,
              "matrix products on a GPU need it: install the CUDA toolkit's libraries, or name "
              "their folder in LD_LIBRARY_PATH");
}

// Absent: own kernels compute attention.
MachineCheck check_attention(const engine::cuda::FusedAttentionStatus& status) {
  if (!status.version.empty()) return ok("cuDNN", status.version);
  return warn("cuDNN", status.reason,
              "attention on a GPU is slower without: install cuDNN, or name its folder in "
              "LD_LIBRARY_PATH");
}

MachineCheck check_nccl(const collectives::NcclLibrary& nccl) {
  if (!nccl.built) return ok("NCCL", "off in this build (NQD_WITH_NCCL)");
  if (!nccl.reason.empty()) {
    return warn("NCCL", nccl.reason,
                "install libnccl2, or name its folder in LD_LIBRARY_PATH; without it messages "
                "between GPUs pass through the host");
  }
  return ok("NCCL", nccl.version + ": nqd bench --backend nccl");
}

// How the GPUs of this host reach each other.
MachineCheck check_peers(int devices) {
  std::vector<collectives::DeviceRecord> records;
  const SystemRoots roots = system_roots();
  collectives::run_threads(devices, {}, [&](collectives::Communicator& world) {
    auto all = collectives::gather_devices(world, collectives::cuda_api(), world.rank(), roots);
    if (world.rank() == 0) records = std::move(all);
  });
  const std::string detail = collectives::pairs_text(records);
  if (detail.find("NVL") != std::string::npos) return ok("GPU to GPU", detail);
  if (detail.find('?') != std::string::npos) {
    return warn("GPU to GPU", detail,
                "NVML does not say how they are joined: in a container it needs the driver's "
                "`utility` capability (`nvidia-smi topo -m`)");
  }
  return warn("GPU to GPU", detail,
              "no pair is joined by NVLink: messages cross PCIe, and tensor parallelism costs "
              "more than a plan for NVLink says (`nvidia-smi topo -m`)");
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

// Where CUDA's Multi-Process Service listens, unless told otherwise.
bool mps_runs() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code error;
  return std::filesystem::exists(
      std::filesystem::path(folder != nullptr ? folder : "/tmp/nvidia-mps") / "control", error);
}

// What ranks that share a GPU have.
MachineCheck check_sharing() {
  const std::string messages =
      is_set("NCCL_MULTI_RANK_GPU_ENABLE")
          ? "NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL takes several ranks a GPU from 2.30 on)"
          : "messages of ranks on one GPU pass through the host (NCCL 2.30 and later takes them "
            "with NCCL_MULTI_RANK_GPU_ENABLE=1)";
  const std::string kernels =
      mps_runs() ? "; MPS runs: kernels of several processes run at once"
                 : "; no MPS: ranks that are processes take turns on a GPU, ranks that are threads "
                   "(--ranks N) need none";
  return ok("ranks on one GPU", messages + kernels);
}

}  // namespace

std::vector<MachineCheck> check_gpus() {
  const engine::CudaStatus cuda = engine::cuda_status();
  std::vector<MachineCheck> checks = {check_nccl(collectives::nccl_library()), check_cuda(cuda)};
  if (!cuda.built) return checks;
  checks.push_back(check_products());
  const engine::cuda::FusedAttentionStatus attention = engine::cuda::fused_attention_status();
  if (attention.built) checks.push_back(check_attention(attention));
  if (cuda.devices.size() > 1) {
    try {
      checks.push_back(check_peers(static_cast<int>(cuda.devices.size())));
    } catch (const Error& error) {
      checks.push_back(warn("GPU to GPU", error.what(), error.hint()));
    }
  }
  if (!cuda.devices.empty()) checks.push_back(check_sharing());
  return checks;
}

}  // namespace nqd::cli
