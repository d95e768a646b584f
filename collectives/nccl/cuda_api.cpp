// The CUDA runtime behind DeviceApi.
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "collectives/device/device_api.h"

namespace nqd::collectives {
namespace {

// After these the runtime takes no more calls of this process: the context is lost.
bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void fail(cudaError_t error, const char* call, const std::string& what) {
  // Else the next launch of this thread would be blamed for it.
  static_cast<void>(cudaGetLastError());
  int device = -1;
  cudaGetDevice(&device);
  const std::string message = std::string(call) + what + " failed on device " +
                              std::to_string(device) + ": " + cudaGetErrorName(error) + " (" +
                              cudaGetErrorString(error) + ")";
  if (error == cudaErrorMemoryAllocation) {
    throw Error(
        ExitCode::kFault, "NQD4062", message,
        "smaller buffers or fewer ranks on a device; nvidia-smi shows who holds its memory");
  }
  const bool sticky = is_sticky(error);
  throw Error(
      ExitCode::kFault, sticky ? "NQD4061" : "NQD4060", message,
      sticky ? "the device's context is lost: start the process again; the error may stem from "
               "any earlier call (compute-sanitizer finds it), or from the hardware (dmesg | "
               "grep Xid)"
             : "look at the call and at the driver's log (dmesg | grep Xid)");
}

void check(cudaError_t error, const char* call, const std::string& what = {}) {
  if (error != cudaSuccess) fail(error, call, what);
}

class CudaApi final : public DeviceApi {
 public:
  int device_count() override {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    return count;
  }
  void use(int device) override { check(cudaSetDevice(device), "cudaSetDevice"); }

  DeviceIdentity identity(int device) override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    std::array<char, 32> bus{};
    check(cudaDeviceGetPCIBusId(bus.data(), bus.size(), device), "cudaDeviceGetPCIBusId");
    DeviceIdentity identity;
    std::memcpy(identity.uuid.data(), properties.uuid.bytes, identity.uuid.size());
    identity.name = properties.name;
    identity.bus_id = bus.data();
    return identity;
  }

  std::byte* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc", " of " + std::to_string(bytes) + " bytes");
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) noexcept override { cudaFree(memory); }
  std::byte* allocate_pinned(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes), "cudaMallocHost",
          " of " + std::to_string(bytes) + " bytes");
    return static_cast<std::byte*>(memory);
  }
  void release_pinned(std::byte* memory) noexcept override { cudaFreeHost(memory); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, DeviceStream stream) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }

  DeviceStream make_stream() override {
    // Messages go before the waves of a product that has begun, so that they overlap with the next.
    int lowest = 0;
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest),
          "cudaStreamCreateWithPriority");
    return stream;
  }
  void release(DeviceStream stream) noexcept override { cudaStreamDestroy(stream); }
  DeviceEvent make_event() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    return event;
  }
  void release(DeviceEvent event) noexcept override { cudaEventDestroy(event); }
  void record(DeviceEvent event, DeviceStream stream) override {
    check(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  bool is_complete(DeviceEvent event) override {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaErrorNotReady) return false;
    check(state, "cudaEventQuery");
    return true;
  }
  void order(DeviceStream stream, DeviceEvent event) override {
    check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  double elapsed_s(DeviceEvent begin, DeviceEvent end) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  void begin_capture(DeviceStream stream) override {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
  }
  DeviceGraph end_capture(DeviceStream stream) override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
    return executable;
  }
  void launch(DeviceGraph graph, DeviceStream stream) override {
    check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  }
  void release(DeviceGraph graph) noexcept override { cudaGraphExecDestroy(graph); }
};

}  // namespace

DeviceApi& cuda_api() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    throw Error(ExitCode::kEnvironment, "NQD3060",
                std::string("no CUDA device can be used: ") +
                    (error != cudaSuccess ? cudaGetErrorString(error) : "none is visible"),
                "check the driver (nvidia-smi), CUDA_VISIBLE_DEVICES and, in a container, that it "
                "was started with the GPUs; or run on CPUs (--backend mpi, shm or local)");
  }
  static CudaApi api;
  return api;
}

}  // namespace nqd::collectives
