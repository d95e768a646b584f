// What asynchronous all_reduce costs the matrix products that run beside it: two ranks as threads
// of one process, on the first two CPUs that it may use. Prints a JSON document with the median
// time of a product alone and beside the all_reduce.
//
// Row "the other core": both ranks' workers on one CPU, rank 0's products on the other. Row "both
// cores": each rank's products on a CPU of its own, the workers where the kernel puts them, so that
// the cost also holds the CPU time of the communication.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "collectives/shared/shared_buffer.h"
#include "collectives/world.h"
#include "engine/gemm/gemm.h"

namespace nqd::bench {
namespace {

using namespace nqd::collectives;

constexpr int kRepetitions = 7;
constexpr int kProducts = 10;                 // a repetition
constexpr std::int64_t kDimension = 768;      // of square matrices
constexpr int kReductions = 8;                // in flight beside the products
constexpr std::size_t kElements = 16u << 20;  // 64 MiB of float32

std::vector<int> usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) {
    throw Error(ExitCode::kEnvironment, "NQD3001", "the overlap of two ranks needs two CPUs",
                "give the process more CPUs (taskset, cgroup)");
  }
  return cpus;
}

// The calling thread and those that it starts from now on.
void run_on(std::span<const int> cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(cpu, &mask);
  ::sched_setaffinity(0, sizeof mask, &mask);
}

struct Matrices {
  std::vector<float> a, b, c;
  Matrices()
      : a(kDimension * kDimension, 0.5f),
        b(kDimension * kDimension, 0.25f),
        c(kDimension * kDimension) {}

  // Seconds of each product.
  std::vector<double> multiply() {
    using engine::Transpose;
    std::vector<double> times;
    for (int i = 0; i < kProducts; ++i) {
      const auto start = std::chrono::steady_clock::now();
      engine::gemm(Transpose::kNo, Transpose::kNo, kDimension, kDimension, kDimension, 1.0f,
                   a.data(), kDimension, b.data(), kDimension, 0.0f, c.data(), kDimension);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      times.push_back(took.count());
    }
    return times;
  }
};

struct Times {
  std::mutex mutex;
  std::vector<double> alone, beside;
  double reduction_s = 0;  // of the last repetition, the longest of one
};

void append(std::vector<double>& all, const std::vector<double>& some) {
  all.insert(all.end(), some.begin(), some.end());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void check_sums(std::span<const float> data) {
  // Every reduction over two ranks doubles.
  const float expected = std::ldexp(1.0f, kReductions);
  if (std::ranges::all_of(data, [&](float value) { return value == expected; })) return;
  throw Error(ExitCode::kFault, "NQD4005", "an asynchronous all_reduce gave a wrong sum");
}

// Products of this rank while reductions are in flight; none when it only takes part in these.
void beside(Communicator& world, std::span<float> data, Matrices* matrices, Times& times) {
  std::ranges::fill(data, 1.0f);
  world.barrier();
  std::vector<Work> works;
  for (int i = 0; i < kReductions; ++i) {
    works.push_back(world.all_reduce_async(writable_bytes_of(data), DType::kFloat32, ReduceOp::kSum,
                                           Algorithm::kDirect));
  }
  std::vector<double> products;
  if (matrices != nullptr) products = matrices->multiply();
  double reductions_s = 0;
  for (Work& work : works) {
    work.wait();
    reductions_s += work.elapsed_s();
  }
  check_sums(data);
  // Products that began after the last reduction ran alone.
  double at = 0;
  std::vector<double> overlapped;
  for (const double product : products) {
    at += product;
    if (at <= reductions_s) overlapped.push_back(product);
  }
  const std::lock_guard lock(times.mutex);
  append(times.beside, overlapped);
  times.reduction_s = reductions_s / kReductions;
}

void measure_rank(Communicator& world, const std::vector<int>& cpus, bool both, Times& times) {
  const auto rank = static_cast<std::size_t>(world.rank());
  SharedBuffer buffer(nullptr, MemoryTag::kGradients, kElements * sizeof(float));
  const std::span<float> data(buffer.as<float>(), kElements);
  Matrices matrices;
  const bool computes = both || rank == 0;
  // The first asynchronous call starts the worker, which stays on these CPUs.
  run_on(both ? std::span(cpus).first(2) : std::span(cpus).subspan(1, 1));
  world
      .all_reduce_async(writable_bytes_of(data), DType::kFloat32, ReduceOp::kSum,
                        Algorithm::kDirect)
      .wait();
  run_on(std::span(cpus).subspan(both ? rank : 1 - (computes ? 1 : 0), 1));
  if (computes) matrices.multiply();
  for (int i = 0; i < kRepetitions; ++i) {
    world.barrier();
    if (computes) {
      const std::vector<double> alone = matrices.multiply();
      const std::lock_guard lock(times.mutex);
      append(times.alone, alone);
    }
    world.barrier();
    beside(world, data, computes ? &matrices : nullptr, times);
  }
}

void measure(bool both, const char* end) {
  const std::vector<int> cpus = usable_cpus();
  Times times;
  run_threads(2, {}, [&](Communicator& world) { measure_rank(world, cpus, both, times); });
  if (times.beside.empty()) {
    throw Error(ExitCode::kFault, "NQD4005", "no product ran while a reduction was in flight");
  }
  const double alone_s = median(times.alone);
  const double beside_s = median(times.beside);
  std::printf(
      "  {\"where\": \"%s\", \"target\": %s, \"alone_s\": %.6f, \"beside_s\": %.6f, "
      "\"cost\": %.4f, \"products_alone\": %zu, \"products_beside\": %zu, "
      "\"reduction_s\": %.6f}%s\n",
      both ? "both cores" : "the other core", both ? "false" : "true", alone_s, beside_s,
      beside_s / alone_s - 1, times.alone.size(), times.beside.size(), times.reduction_s, end);
}

}  // namespace
}  // namespace nqd::bench

int main() {
  try {
    std::printf(
        "{\"what\": \"%lld x %lld float32 products, %zu MiB direct all_reduce on shared "
        "buffers\", \"rows\": [\n",
        static_cast<long long>(nqd::bench::kDimension),
        static_cast<long long>(nqd::bench::kDimension),
        nqd::bench::kElements * sizeof(float) >> 20);
    nqd::bench::measure(false, ",");
    nqd::bench::measure(true, "");
    std::printf("]}\n");
  } catch (const nqd::Error& error) {
    std::fprintf(stderr, "nqd_overlap_bench: [%s] %s\n", error.code().c_str(), error.what());
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
