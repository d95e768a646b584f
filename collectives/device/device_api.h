// The calls of the CUDA runtime that moving data between ranks needs, and no more: what stages
// buffers, orders streams and times calls is written over it, so that a test can put host memory in
// its place. The real one is in collectives/nccl/, where the vendor's headers are.
//
// Every call throws Error (kFault: NQD4060, NQD4061 for a lost context, NQD4062 out of memory) that
// names the call of the runtime and its error; what is noexcept ignores it. Thread-safe; streams,
// events and memory belong to the device that the calling thread uses (`use`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

// The runtime's own names for its handles: cudaStream_t, cudaEvent_t, cudaGraphExec_t.
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace nqd::collectives {

using DeviceStream = CUstream_st*;  // null: the default stream
using DeviceEvent = CUevent_st*;
using DeviceGraph = CUgraphExec_st*;

struct DeviceIdentity {
  std::array<std::uint8_t, 16> uuid{};  // of the GPU, or of the part of it that is used as one
  std::string name;                     // "NVIDIA H200"
  std::string bus_id;                   // "0000:1b:00.0"
};

// "GPU-6f5bb8e4-…", as nvidia-smi -L prints it.
std::string uuid_text(const std::array<std::uint8_t, 16>& uuid);

class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  virtual int device_count() = 0;
  // For the calling thread, until it uses another.
  virtual void use(int device) = 0;
  virtual DeviceIdentity identity(int device) = 0;

  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  // Host memory that the device copies from and to while the host works.
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) noexcept = 0;
  // In the order of `stream`, between host and device in any direction. Host memory that is not
  // pinned may hold the calling thread up.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes,
                    DeviceStream stream) = 0;

  // A stream that does not wait for the default stream.
  virtual DeviceStream make_stream() = 0;
  virtual void release(DeviceStream stream) noexcept = 0;
  virtual DeviceEvent make_event() = 0;
  virtual void release(DeviceEvent event) noexcept = 0;
  virtual void record(DeviceEvent event, DeviceStream stream) = 0;
  // Whether all that was on the stream when the event was recorded is complete.
  virtual bool is_complete(DeviceEvent event) = 0;
  // What is put on `stream` from now on runs after what `event` stands for.
  virtual void order(DeviceStream stream, DeviceEvent event) = 0;
  // Seconds on the device between two complete events.
  virtual double elapsed_s(DeviceEvent begin, DeviceEvent end) = 0;

  // What is put on `stream` between the two is kept as a graph and does not run.
  virtual void begin_capture(DeviceStream stream) = 0;
  virtual DeviceGraph end_capture(DeviceStream stream) = 0;
  virtual void launch(DeviceGraph graph, DeviceStream stream) = 0;
  virtual void release(DeviceGraph graph) noexcept = 0;
};

// The runtime of this build. Throws Error (kEnvironment, NQD3060) that says why there is none:
// built without CUDA, no driver, no device.
DeviceApi& cuda_api();

}  // namespace nqd::collectives
