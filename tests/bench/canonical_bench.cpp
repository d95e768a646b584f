// What canonical sums cost beside fast ones: run it under mpirun, or give a number of threads
// (with --json under mpirun for tests/bench/peers/run.py).
// Each rank has m contributions. Fast: it adds them in turn and calls all_reduce with the ring or
// direct. Canonical: an Accumulator and canonical_all_reduce. Times are medians of the slowest
// rank; "collective" leaves out the rank's own additions.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/canonical/canonical.h"
#include "collectives/reduce.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

constexpr int kWarmup = 3;
constexpr int kSamples = 15;

struct Times {
  double all_s = 0;
  double collective_s = 0;
};

// `add` is the rank's own part of the work, `exchange` the collective.
template <typename Add, typename Exchange>
Times measure(Communicator& world, const Add& add, const Exchange& exchange) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> samples(2 * kSamples);
  for (int i = -kWarmup; i < kSamples; ++i) {
    world.barrier();
    const auto start = Clock::now();
    add();
    const auto added = Clock::now();
    world.barrier();
    const auto begin = Clock::now();
    exchange();
    const auto end = Clock::now();
    if (i < 0) continue;
    const auto at = static_cast<std::size_t>(i);
    samples[at] = std::chrono::duration<double>(end - begin).count();
    samples[kSamples + at] = samples[at] + std::chrono::duration<double>(added - start).count();
  }
  const auto bytes = std::as_writable_bytes(std::span(samples));
  world.all_reduce(bytes, bytes, DType::kFloat64, ReduceOp::kMax);
  return {percentile({samples.begin() + kSamples, samples.end()}, 0.5),
          percentile({samples.begin(), samples.begin() + kSamples}, 0.5)};
}

Times fast(Communicator& world, const Buffer& contribution, std::size_t m, Algorithm algorithm) {
  const std::span<const std::byte> in{contribution.data(), contribution.size()};
  Buffer sum(nullptr, MemoryTag::kWorkspace, in.size());
  const std::span<std::byte> total{sum.data(), sum.size()};
  const auto add = [&] {
    std::copy(in.begin(), in.end(), total.begin());
    for (std::size_t i = 1; i < m; ++i) reduce(total, total, in, DType::kFloat32, ReduceOp::kSum);
  };
  return measure(world, add, [&] {
    world.all_reduce(total, total, DType::kFloat32, ReduceOp::kSum, algorithm);
  });
}

Times canonical(Communicator& world, const Buffer& contribution, std::size_t m,
                Algorithm algorithm) {
  const auto n = static_cast<std::size_t>(world.size());
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<IndexRange> ranges;
  for (std::size_t i = 0; i < n; ++i) ranges.push_back({i * m, (i + 1) * m});
  const ContributionLayout layout(ranges);
  const std::size_t bytes = contribution.size();
  Accumulator mine(layout.range(rank), layout.total(), bytes / sizeof(float), DType::kFloat32);
  Scratch scratch;
  const auto add = [&] {
    mine.restart();
    for (std::size_t i = 0; i < m; ++i) mine.add({contribution.data(), bytes}, DType::kFloat32);
  };
  return measure(world, add, [&] {
    canonical_all_reduce(world, scratch, layout, mine, mine.vector(0), ReduceOp::kSum, algorithm);
  });
}

struct Row {
  std::size_t bytes = 0;
  std::size_t contributions = 0;
  const char* what = "";
  Times times;
};

void print_text(const Communicator& world, const std::vector<Row>& rows) {
  std::printf("%d ranks, %s, float32 sum, private buffers\n", world.size(),
              std::string(world.backend()).c_str());
  std::puts("     bytes  m  what                    all us   coll us   of ring, same m");
  Times ring;
  for (const Row& row : rows) {
    if (row.what == std::string_view("fast ring")) ring = row.times;
    std::printf("%10zu %2zu  %-20s %9.1f %9.1f   %5.2f  %5.2f\n", row.bytes, row.contributions,
                row.what, row.times.all_s * 1e6, row.times.collective_s * 1e6,
                row.times.all_s / ring.all_s, row.times.collective_s / ring.collective_s);
  }
}

void print_json(const Communicator& world, const std::vector<Row>& rows) {
  std::printf("{\"ranks\": %d, \"rows\": [", world.size());
  const char* separator = "\n";
  for (const Row& row : rows) {
    std::printf(
        "%s  {\"bytes\": %zu, \"contributions\": %zu, \"what\": \"%s\", \"all_s\": %.9f, "
        "\"collective_s\": %.9f}",
        separator, row.bytes, row.contributions, row.what, row.times.all_s, row.times.collective_s);
    separator = ",\n";
  }
  std::puts("\n]}");
}

std::vector<Row> measure_all(Communicator& world) {
  const bool reaches = world.chosen(Collective::kAllReduce, Algorithm::kAuto) == Algorithm::kDirect;
  std::vector<Row> rows;
  for (const std::size_t bytes :
       {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20}) {
    Buffer contribution(nullptr, MemoryTag::kWorkspace, bytes);
    std::fill_n(contribution.as<float>(), bytes / sizeof(float), 1.0f + world.rank());
    for (const std::size_t m : {1, 3, 4}) {
      const auto row = [&](const char* what, const Times& times) {
        rows.push_back({bytes, m, what, times});
      };
      row("fast ring", fast(world, contribution, m, Algorithm::kRing));
      if (reaches) row("fast direct", fast(world, contribution, m, Algorithm::kDirect));
      if (reaches) row("canonical direct", canonical(world, contribution, m, Algorithm::kDirect));
      row("canonical pairwise", canonical(world, contribution, m, Algorithm::kPairwise));
    }
  }
  return rows;
}

}  // namespace
}  // namespace nqd::collectives

int main(int argc, char** argv) {
  using namespace nqd::collectives;
  WorldOptions options;
  const bool json = argc == 2 && argv[1] == std::string_view("--json");
  if (argc == 2 && !json) options.ranks = std::atoi(argv[1]);
  try {
    run_world(options, [json](Communicator& world) {
      const std::vector<Row> rows = measure_all(world);
      if (world.rank() == 0) (json ? print_json : print_text)(world, rows);
    });
  } catch (const nqd::Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.code().c_str(), error.what());
    abort_process(static_cast<int>(error.exit_code()));
  }
  return 0;
}
