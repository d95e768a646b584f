#include "tests/collectives/nccl/emulated_device.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace nqd::collectives::emulated {
namespace {

using Clock = std::chrono::steady_clock;
using Job = std::function<void()>;

class Stream {
 public:
  Stream() : thread_([this] { loop(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void put(Job job) {
    if (captured_) return captured_->push_back(std::move(job));
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
  }
  void begin_capture() { captured_.emplace(); }
  std::vector<Job> end_capture() {
    std::vector<Job> jobs = std::move(*captured_);
    captured_.reset();
    return jobs;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::optional<std::vector<Job>> captured_;
  std::thread thread_;
};

// Outlives its handle while a stream has to come to it.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  Clock::time_point time;
};
using Event = std::shared_ptr<EventState>;
using Graph = std::vector<Job>;

Stream& of(DeviceStream stream) { return *reinterpret_cast<Stream*>(stream); }
Event& of(DeviceEvent event) { return *reinterpret_cast<Event*>(event); }
Graph& of(DeviceGraph graph) { return *reinterpret_cast<Graph*>(graph); }

constexpr std::align_val_t kLine{64};

}  // namespace

void Device::put(DeviceStream stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  of(stream).put(std::move(work));
}

DeviceIdentity Device::identity(int device) {
  DeviceIdentity identity;
  identity.uuid.fill(static_cast<std::uint8_t>(0x10 + device));
  identity.name = "Emulated GPU";
  identity.bus_id = "0000:0" + std::to_string(device) + ":00.0";
  return identity;
}

std::byte* Device::allocate(std::size_t bytes) {
  ++live_;
  return static_cast<std::byte*>(::operator new(bytes, kLine));
}

void Device::release(std::byte* memory) noexcept {
  --live_;
  ::operator delete(memory, kLine);
}

void Device::copy(std::byte* to, const std::byte* from, std::size_t bytes, DeviceStream stream) {
  put(stream, [=] { std::memcpy(to, from, bytes); });
}

DeviceStream Device::make_stream() {
  ++live_;
  return reinterpret_cast<DeviceStream>(new Stream);
}

void Device::release(DeviceStream stream) noexcept {
  --live_;
  delete &of(stream);
}

DeviceEvent Device::make_event() {
  ++live_;
  return reinterpret_cast<DeviceEvent>(new Event(std::make_shared<EventState>()));
}

void Device::release(DeviceEvent event) noexcept {
  --live_;
  delete &of(event);
}

void Device::record(DeviceEvent event, DeviceStream stream) {
  const Event state = of(event);
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(state->mutex);
    mark = ++state->recorded;
  }
  put(stream, [state, mark] {
    const std::lock_guard lock(state->mutex);
    state->reached = mark;
    state->time = Clock::now();
    state->changed.notify_all();
  });
}

bool Device::is_complete(DeviceEvent event) {
  if (lost_) throw Error(ExitCode::kFault, "NQD4060", "cudaEventQuery failed: emulated loss");
  const Event state = of(event);
  const std::lock_guard lock(state->mutex);
  return state->reached == state->recorded;
}

void Device::order(DeviceStream stream, DeviceEvent event) {
  const Event state = of(event);
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(state->mutex);
    mark = state->recorded;
  }
  put(stream, [state, mark] {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->reached >= mark; });
  });
}

double Device::elapsed_s(DeviceEvent begin, DeviceEvent end) {
  const std::chrono::duration<double> passed = of(end)->time - of(begin)->time;
  return passed.count();
}

void Device::begin_capture(DeviceStream stream) { of(stream).begin_capture(); }

DeviceGraph Device::end_capture(DeviceStream stream) {
  ++live_;
  return reinterpret_cast<DeviceGraph>(new Graph(of(stream).end_capture()));
}

void Device::launch(DeviceGraph graph, DeviceStream stream) {
  for (const Job& job : of(graph)) put(stream, job);
}

void Device::release(DeviceGraph graph) noexcept {
  --live_;
  delete &of(graph);
}

}  // namespace nqd::collectives::emulated
