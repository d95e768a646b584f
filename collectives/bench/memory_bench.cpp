#include "collectives/bench/memory_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <string_view>

#include "collectives/bench/bench.h"
#include "collectives/cost.h"
#include "collectives/reduce.h"
#include "collectives/shared/shared_buffer.h"
#include "collectives/stream.h"

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;

enum class Kernel : std::uint8_t { kCopy, kRead, kReduce, kStreamCopy };
struct KernelInfo {
  Kernel kernel;
  std::string_view name;
  std::uint64_t passes;  // vectors read or written in a call
};
constexpr std::array kKernels = {
    KernelInfo{Kernel::kCopy, "copy", 2}, KernelInfo{Kernel::kRead, "read", 1},
    KernelInfo{Kernel::kReduce, "reduce", 3}, KernelInfo{Kernel::kStreamCopy, "nt_copy", 2}};

// Independent sums, so that the loads are not held up by the additions.
std::uint64_t sum_of(std::span<const std::byte> data) {
  constexpr std::size_t kLanes = 8;
  std::array<std::uint64_t, kLanes> sums{};
  std::array<std::uint64_t, kLanes> line{};
  for (std::size_t at = 0; at + sizeof line <= data.size(); at += sizeof line) {
    std::memcpy(line.data(), data.data() + at, sizeof line);
    for (std::size_t i = 0; i < kLanes; ++i) sums[i] += line[i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

class Vectors {
 public:
  explicit Vectors(std::uint64_t bytes)
      : a_(nullptr, MemoryTag::kCommunication, bytes),
        b_(nullptr, MemoryTag::kCommunication, bytes),
        out_(nullptr, MemoryTag::kCommunication, bytes) {
    // Pages exist before they are timed.
    std::memset(a_.data(), 1, bytes);
    std::memset(b_.data(), 2, bytes);
    std::memset(out_.data(), 3, bytes);
  }

  void run(Kernel kernel, std::uint64_t bytes) {
    switch (kernel) {
      case Kernel::kCopy:
        std::memcpy(out_.data(), a_.data(), bytes);
        return;
      case Kernel::kRead:
        sum_ = sum_ + sum_of({a_.data(), bytes});
        return;
      case Kernel::kReduce:
        reduce({out_.data(), bytes}, {a_.data(), bytes}, {b_.data(), bytes}, DType::kFloat32,
               ReduceOp::kSum);
        return;
      case Kernel::kStreamCopy:
        stream_copy(out_.data(), a_.data(), bytes);
        stream_fence();
        return;
    }
  }

 private:
  SharedBuffer a_;
  SharedBuffer b_;
  SharedBuffer out_;
  volatile std::uint64_t sum_ = 0;  // the sum is used, so it is computed
};

class MemoryBench {
 public:
  MemoryBench(Communicator& world, const MemoryOptions& options)
      : world_(world), options_(options), vectors_(options.sizes.back()) {}

  MemoryRow together(const KernelInfo& kernel, std::uint64_t bytes);
  MemoryRow alone(const KernelInfo& kernel, std::uint64_t bytes, int rank);

 private:
  std::vector<double> timed(Kernel kernel, std::uint64_t bytes, bool in_step);
  static void summarize(MemoryRow& row) {
    row.p50_s = percentile(row.samples_s, 0.5);
    row.bandwidth_gbps = static_cast<double>(row.traffic_bytes) / row.p50_s / 1e9;
  }

  static constexpr int kWarmup = 2;
  Communicator& world_;
  const MemoryOptions& options_;
  Vectors vectors_;
};

// A call on small vectors is shorter than what starts it: each sample is the mean of enough calls
// to move kSampleBytes.
std::vector<double> MemoryBench::timed(Kernel kernel, std::uint64_t bytes, bool in_step) {
  constexpr std::uint64_t kSampleBytes = std::uint64_t{4} << 20;
  const std::uint64_t calls = std::max<std::uint64_t>(1, kSampleBytes / bytes);
  for (int i = 0; i < kWarmup; ++i) vectors_.run(kernel, bytes);
  std::vector<double> samples(static_cast<std::size_t>(options_.iterations));
  for (double& sample : samples) {
    if (in_step) world_.barrier();
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) vectors_.run(kernel, bytes);
    sample =
        std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(calls);
  }
  return samples;
}

MemoryRow MemoryBench::together(const KernelInfo& kernel, std::uint64_t bytes) {
  MemoryRow row;
  row.kernel = kernel.name;
  row.bytes = bytes;
  row.traffic_bytes = kernel.passes * bytes * static_cast<std::uint64_t>(world_.size());
  row.samples_s = timed(kernel.kernel, bytes, true);
  const auto samples = std::as_writable_bytes(std::span(row.samples_s));
  world_.all_reduce(samples, samples, DType::kFloat64, ReduceOp::kMax);
  summarize(row);
  return row;
}

MemoryRow MemoryBench::alone(const KernelInfo& kernel, std::uint64_t bytes, int rank) {
  MemoryRow row;
  row.kernel = kernel.name;
  row.rank = rank;
  row.bytes = bytes;
  row.traffic_bytes = kernel.passes * bytes;
  row.samples_s.resize(static_cast<std::size_t>(options_.iterations));
  if (world_.rank() == rank) row.samples_s = timed(kernel.kernel, bytes, false);
  world_.broadcast(std::as_writable_bytes(std::span(row.samples_s)), rank);
  summarize(row);
  return row;
}

bool is_one_host(const Communicator& world) { return ranks_on_this_host(world) == world.size(); }

}  // namespace

std::vector<AllReduceLimit> all_reduce_limits(const std::vector<MemoryRow>& rows, int ranks) {
  std::vector<AllReduceLimit> limits;
  const double factor = bus_factor(Collective::kAllReduce, static_cast<std::size_t>(ranks));
  for (const MemoryRow& row : rows) {
    if (row.rank >= 0 || (row.kernel != "copy" && row.kernel != "nt_copy")) continue;
    const auto found = std::find_if(limits.begin(), limits.end(), [&](const AllReduceLimit& limit) {
      return limit.bytes == row.bytes;
    });
    const double busbw = static_cast<double>(row.bytes) / row.p50_s / 1e9 * factor;
    if (found == limits.end()) {
      limits.push_back({row.bytes, row.p50_s, busbw});
    } else if (row.p50_s < found->limit_s) {
      *found = {row.bytes, row.p50_s, busbw};
    }
  }
  return limits;
}

MemoryResult run_memory_bench(Communicator& world, const MemoryOptions& options,
                              const std::function<void(const MemoryRow&)>& on_row) {
  MemoryBench bench(world, options);
  MemoryResult result;
  const auto keep = [&](MemoryRow row) {
    if (on_row && world.rank() == 0) on_row(row);
    result.rows.push_back(std::move(row));
  };
  for (const KernelInfo& kernel : kKernels) {
    for (const std::uint64_t bytes : options.sizes) {
      for (int rank = 0; rank < world.size(); ++rank) keep(bench.alone(kernel, bytes, rank));
      keep(bench.together(kernel, bytes));
    }
  }
  if (world.size() > 1 && is_one_host(world)) {
    result.limits = all_reduce_limits(result.rows, world.size());
  }
  return result;
}

}  // namespace nqd::collectives
