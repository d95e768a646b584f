#include "cli/bench/nccl_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

namespace nqd::cli {
namespace {

using collectives::BenchRow;
using collectives::Collective;

// As nccl-tests writes them; the others are as here.
std::string type_name(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kFloat16:
      return "half";
    default:
      return std::string(name(type));
  }
}

bool has_parts(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllToAll || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

// The programs of nccl-tests, by which readers know the collective.
std::string program_of(const collectives::BenchOptions& options) {
  switch (options.collective) {
    case Collective::kAllToAll:
      return "alltoall_perf";
    case Collective::kSendRecv:
      return "sendrecv_perf";
    default:
      return std::string(name(options.collective)) + "_perf";
  }
}

double mean_s(const BenchRow& row) {
  double sum = 0;
  for (const double sample : row.samples_s) sum += sample;
  return sum / static_cast<double>(row.samples_s.size());
}

// Bandwidths of the row are of its median.
double busbw_of_mean(const BenchRow& row) { return row.busbw_gbps * row.p50_s / mean_s(row); }

template <typename... Values>
void add(std::string& text, const char* format, Values... values) {
  std::array<char, 256> line{};
  const int length = std::snprintf(line.data(), line.size(), format, values...);
  text.append(line.data(), std::min(static_cast<std::size_t>(length), line.size() - 1));
}

void add_half(std::string& text, const BenchRow* row) {
  if (row == nullptr) return add(text, "  %8s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  const double mean = mean_s(*row);
  add(text, "  %8.2f  %6.2f  %6.2f  %6s", mean * 1e6, row->algbw_gbps * row->p50_s / mean,
      busbw_of_mean(*row), row->checked ? std::to_string(row->wrong).c_str() : "N/A");
}

void add_line(std::string& text, const collectives::BenchOptions& options,
              const BenchRow* out_of_place, const BenchRow* in_place) {
  const BenchRow& row = out_of_place != nullptr ? *out_of_place : *in_place;
  const std::uint64_t elements = row.effective_bytes / size_bytes(options.dtype);
  const std::uint64_t count =
      has_parts(options.collective) ? elements / static_cast<std::uint64_t>(row.ranks) : elements;
  add(text, "%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(row.effective_bytes),
      static_cast<unsigned long long>(count), type_name(options.dtype).c_str(),
      reduces(options.collective) ? row.op.c_str() : "none",
      has_root(options.collective) ? options.root : -1);
  add_half(text, out_of_place);
  add_half(text, in_place);
  text += '\n';
}

std::string header(const collectives::BenchOptions& options, const std::string& nccl_version,
                   std::span<const collectives::DeviceRecord> devices) {
  std::string text;
  add(text, "# nqd bench %s, NCCL %s\n# Collective test starting: %s\n",
      bench_name(options).c_str(), nccl_version.c_str(), program_of(options).c_str());
  add(text, "# nThread 1 nGpus 1 minBytes %llu maxBytes %llu warmup iters: %d iters: %d\n#\n",
      static_cast<unsigned long long>(options.begin_bytes),
      static_cast<unsigned long long>(options.end_bytes), options.warmup, options.iterations);
  text += "# Using devices\n";
  for (const collectives::DeviceRecord& device : devices) {
    add(text, "#  Rank %2d Group  0 on %10s device %2d [%s] %s\n", device.rank, device.host.c_str(),
        device.ordinal, device.bus_id.c_str(), device.name.c_str());
  }
  add(text, "#\n# %72s %31s\n", "out-of-place", "in-place");
  add(text, "# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  for (int half = 0; half < 2; ++half) {
    add(text, "  %8s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
  }
  add(text, "\n# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  for (int half = 0; half < 2; ++half) {
    add(text, "  %8s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
  }
  return text + "\n";
}

}  // namespace

std::string nccl_table(const collectives::BenchOptions& options, const std::string& nccl_version,
                       std::span<const collectives::DeviceRecord> devices,
                       const std::vector<BenchRow>& rows) {
  std::string text = header(options, nccl_version, devices);
  std::map<std::uint64_t, std::pair<const BenchRow*, const BenchRow*>> lines;
  std::uint64_t wrong = 0;
  double sum = 0;
  for (const BenchRow& row : rows) {
    auto& [out_of_place, in_place] = lines[row.effective_bytes];
    (row.in_place ? in_place : out_of_place) = &row;
    wrong += row.wrong;
    sum += busbw_of_mean(row);
  }
  for (const auto& [bytes, halves] : lines) add_line(text, options, halves.first, halves.second);
  add(text, "# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong),
      wrong == 0 ? "OK" : "FAILED");
  add(text, "# Avg bus bandwidth    : %g\n#\n", sum / static_cast<double>(rows.size()));
  return text;
}

}  // namespace nqd::cli
