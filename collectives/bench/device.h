// The sweep on vectors that are memory of a device: who holds them, runs the calls and times them,
// while a world of another backend compares the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bench/bench.h"

namespace nqd::collectives {

// A collective, or a message each way where `is_message` (−1 is nobody).
struct BenchStep {
  CollectiveCall call;
  bool is_message = false;
  int to = -1;
  int from = -1;
};
// One call of a sweep: a pingpong has two steps.
using BenchSteps = std::vector<BenchStep>;

class BenchDevice {
 public:
  virtual ~BenchDevice() = default;

  virtual std::string_view backend() const = 0;
  // Two vectors of so many bytes, which replace those before; 0 bytes are none.
  virtual void allocate(std::size_t full_bytes, std::size_t second_bytes, bool registered) = 0;
  virtual std::span<std::byte> full() = 0;
  virtual std::span<std::byte> second() = 0;
  // Between a vector and the host, in either direction; returns when it is done.
  virtual void copy(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  // Collective. Returns when the device has done it.
  virtual void run(const BenchSteps& steps) = 0;
  // Collective. Seconds on the device of each of `calls` calls, which `next` gives, one queued
  // behind the other.
  virtual std::vector<double> time(std::size_t calls, const std::function<BenchSteps()>& next) = 0;
  // Collective. What the library expects of a call, which does not run; nothing where it does not
  // say.
  virtual std::optional<double> estimate_s(const BenchSteps& steps) = 0;
};

// What run_bench on a device adds to its result.
struct DeviceSweep {
  BenchResult result;
  std::vector<std::optional<double>> estimates_s;  // by row
};

// Collective. As run_bench, of the library's own collectives: options.algorithms are not read. A
// sample is the time between two marks on the device, before and after one call of many that are
// queued behind each other after one barrier, as nccl-tests measures; the maximum over ranks. Says
// nothing of the fabric, which the library's log tells better.
DeviceSweep run_bench(Communicator& world, const BenchOptions& options, BenchDevice& device,
                      const std::function<void(const BenchRow&)>& on_row = {});

}  // namespace nqd::collectives
