#include "cli/checkpoint_inspect.h"

#include <cstdio>
#include <iostream>
#include <string>

#include "base/units.h"
#include "cli/checkpoint_offline.h"
#include "reports/checkpoint_json.h"

namespace nqd::cli {
namespace {

void print_head(const engine::Manifest& manifest) {
  std::cout << manifest.generation << ", step " << manifest.state.step << ", written "
            << manifest.written_at << " by " << manifest.mesh << '\n';
  std::int64_t elements = 0;
  for (const engine::CheckpointTensor& tensor : manifest.tensors) elements += tensor.elements();
  std::cout << manifest.tensors.size() << " tensors, " << elements << " elements, each with";
  for (const engine::Quantity quantity : manifest.quantities) {
    std::cout << ' ' << engine::name(quantity);
  }
  std::uint64_t bytes = 0;
  for (const engine::CheckpointFile& file : manifest.files) bytes += file.bytes;
  std::cout << '\n'
            << manifest.files.size() << " files, " << format_bytes(static_cast<double>(bytes))
            << '\n';
}

void print_tensors(const engine::Manifest& manifest) {
  for (const engine::CheckpointTensor& tensor : manifest.tensors) {
    std::string shape;
    for (const std::int64_t extent : tensor.shape) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    }
    std::printf("  %-40s [%s]\n", tensor.name.c_str(), shape.c_str());
  }
}

void print_files(const engine::Manifest& manifest) {
  const std::vector<planner::RankPlace> writers = writers_of(manifest);
  std::printf("%6s %4s %4s %4s  %12s %8s %12s  %s\n", "rank", "pp", "dp", "tp", "bytes", "tensors",
              "elements", "file");
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank) {
    const engine::CheckpointFile& file = manifest.files[rank];
    const auto place = [&](std::int64_t planner::RankPlace::*axis) {
      return writers.empty() ? "-" : std::to_string(writers[rank].*axis);
    };
    std::printf("%6zu %4s %4s %4s  %12llu %8zu %12lld  %s\n", rank,
                place(&planner::RankPlace::pp).c_str(), place(&planner::RankPlace::dp).c_str(),
                place(&planner::RankPlace::tp).c_str(), static_cast<unsigned long long>(file.bytes),
                file.tensors().size(), static_cast<long long>(file.elements()), file.name.c_str());
  }
}

}  // namespace

std::vector<planner::RankPlace> writers_of(const engine::Manifest& manifest) {
  const planner::LoadedConfig loaded = config_of(manifest);
  if (!loaded.ok()) return {};
  const planner::RankMap map(loaded.config);
  if (map.ranks() != static_cast<std::int64_t>(manifest.files.size())) return {};
  std::vector<planner::RankPlace> places;
  for (std::int64_t rank = 0; rank < map.ranks(); ++rank) places.push_back(map.place(rank));
  return places;
}

void inspect(const engine::CheckpointReader& reader, bool ranks, bool json) {
  const engine::Manifest& manifest = reader.manifest();
  if (json) {
    std::cout << reports::manifest_summary_json(manifest, reader.manifest_sha256(),
                                                writers_of(manifest));
    return;
  }
  print_head(manifest);
  std::cout << std::flush;
  ranks ? print_files(manifest) : print_tensors(manifest);
  std::fflush(stdout);
}

}  // namespace nqd::cli
