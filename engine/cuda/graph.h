// A recorded sequence of work that is started with one call.
#pragma once

#include <functional>
#include <utility>

#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

class Graph {
 public:
  Graph() = default;
  // Calls record(), which puts work on `stream`, and on streams that wait for events of it and that
  // it waits for in the end. Nothing of it runs now. Addresses and sizes are kept as they are:
  // buffers must live, and shapes stay, as long as the graph is launched. While it records the
  // calling thread may not allocate device memory, and no one wait for `stream`. What record()
  // throws ends the recording and is passed on. Throws NQD4060.
  Graph(StreamHandle stream, const std::function<void()>& record);
  ~Graph();
  Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  bool empty() const { return handle_ == nullptr; }
  void launch(StreamHandle stream) const;

 private:
  GraphHandle handle_ = nullptr;
};

}  // namespace nqd::engine::cuda
