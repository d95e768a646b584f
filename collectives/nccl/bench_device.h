// The sweep of `nqd bench --backend nccl`: vectors in device memory, calls of NCCL, times between
// events.
#pragma once

#include <memory>

#include "collectives/bench/device.h"
#include "collectives/nccl/communicator.h"

namespace nqd::collectives {

class NcclBenchDevice final : public BenchDevice {
 public:
  // Collective over `world`, which outlives it. Calls run on a blocking twin of it, as programs use
  // NCCL; `graph`: each call is captured once and launched as a graph.
  NcclBenchDevice(NcclCommunicator& world, bool graph);

  std::string_view backend() const override { return "nccl"; }
  void allocate(std::size_t full_bytes, std::size_t second_bytes, bool registered) override;
  std::span<std::byte> full() override { return full_.bytes(); }
  std::span<std::byte> second() override { return second_.bytes(); }
  void copy(std::span<std::byte> to, std::span<const std::byte> from) override;
  void run(const BenchSteps& steps) override;
  std::vector<double> time(std::size_t calls, const std::function<BenchSteps()>& next) override;
  std::optional<double> estimate_s(const BenchSteps& steps) override;

 private:
  // Device memory that NCCL knows, or not.
  class Vector {
   public:
    Vector() = default;
    Vector(NcclCommunicator& world, std::size_t bytes, bool registered);
    std::span<std::byte> bytes();

   private:
    std::optional<NcclBuffer> known_;
    std::optional<DeviceBlock> plain_;
    std::size_t size_ = 0;
  };

  DeviceStream stream() { return twin_->session().stream(); }
  void put(const BenchSteps& steps);
  OwnedGraph captured(const BenchSteps& steps);
  // Records a mark on the stream and returns when the device has come to it.
  void finish();

  DeviceApi& device_;
  std::unique_ptr<NcclCommunicator> twin_;
  const bool graph_;
  OwnedEvent mark_;
  Vector full_;
  Vector second_;
};

}  // namespace nqd::collectives
