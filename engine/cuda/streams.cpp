#include "engine/cuda/streams.h"

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"
#include "engine/cuda/error.h"

namespace nqd::engine::cuda {

void use_device(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || device < 0 || device >= count) {
    const std::string why = error == cudaSuccess ? std::to_string(count) + " are visible"
                                                 : std::string(cudaGetErrorString(error));
    throw Error(ExitCode::kEnvironment, "NQD3060",
                "CUDA device " + std::to_string(device) + " cannot be used: " + why,
                "`nqd doctor` lists the devices; CUDA_VISIBLE_DEVICES hides some");
  }
  check(cudaSetDevice(device), "cudaSetDevice");
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

void synchronize_device() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

OnDevice::OnDevice(int device) : before_(current_device()), device_(device) {
  if (device_ != before_) check(cudaSetDevice(device_), "cudaSetDevice");
}

OnDevice::~OnDevice() {
  if (device_ != before_) static_cast<void>(cudaSetDevice(before_));
}

Event::Event(Kind kind) {
  const unsigned flags = kind == Kind::kTiming ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&handle_, flags), "cudaEventCreateWithFlags");
}

Event::~Event() {
  if (handle_ != nullptr) static_cast<void>(cudaEventDestroy(handle_));
}

void Event::record(StreamHandle stream) {
  check(cudaEventRecord(handle_, stream), "cudaEventRecord");
}

bool Event::done() const {
  const cudaError_t error = cudaEventQuery(handle_);
  if (error == cudaErrorNotReady) return false;
  check(error, "cudaEventQuery");
  return true;
}

void Event::synchronize() const { check(cudaEventSynchronize(handle_), "cudaEventSynchronize"); }

float Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.handle_, handle_), "cudaEventElapsedTime");
  return milliseconds;
}

Stream::Stream(Priority priority) {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking,
                                     priority == Priority::kHigh ? highest : lowest),
        "cudaStreamCreateWithPriority");
}

Stream::~Stream() {
  if (handle_ != nullptr) static_cast<void>(cudaStreamDestroy(handle_));
}

void Stream::synchronize() const { check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

void Stream::wait(const Event& event) const {
  check(cudaStreamWaitEvent(handle_, event.handle(), 0), "cudaStreamWaitEvent");
}

void copy_async(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void fill_zero(StreamHandle stream, void* to, std::size_t bytes) {
  check(cudaMemsetAsync(to, 0, bytes, stream), "cudaMemsetAsync");
}

}  // namespace nqd::engine::cuda
