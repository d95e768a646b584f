#include "engine/train/device_check.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/units.h"

namespace nqd::engine {
namespace {

bool on_gpu(const RankIdentity& rank) { return rank.device != "cpu"; }

// "H100" of the device preset "h100-sxm".
std::string chip_of(const std::string& preset) {
  std::string chip = preset.substr(0, preset.find('-'));
  std::transform(chip.begin(), chip.end(), chip.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return chip;
}

// Whether `word` stands in `text` by itself: "B200" is not in "NVIDIA GB200".
bool has_word(std::string_view text, std::string_view word) {
  const auto is_letter = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  }
  return false;
}

DeviceWarning other_device(const std::string& planned_gpu, const RankIdentity& rank) {
  return {"other-device",
          "the plan is for " + planned_gpu + ", but rank " + std::to_string(rank.rank) +
              " on host " + rank.host + " has " + rank.device,
          "every rank has the GPU that cluster.gpu names",
          "the config names another cluster than the one that the run is on",
          "predicted times and MFU are of the device that was planned: name the one that is there "
          "(cluster.preset, cluster.gpu)"};
}

DeviceWarning shared_device(const RankIdentity& first, std::int64_t ranks, std::int64_t devices) {
  return {"shared-device",
          std::to_string(ranks) + " ranks of host " + first.host + " compute on " +
              std::to_string(devices) + (devices == 1 ? " GPU" : " GPUs") +
              ", but the plan has one for each",
          "a GPU for each rank", "the host shows fewer GPUs than the plan puts ranks on it",
          "they take turns: start as many ranks as there are GPUs, or look at "
          "CUDA_VISIBLE_DEVICES"};
}

}  // namespace

planner::Config on_gpus(planner::Config config) {
  planner::ClusterSpec& cluster = config.cluster;
  // What the planner knows a cluster without devices by.
  cluster.preset = "cpu-host";
  cluster.memory_bytes = 0;
  cluster.ranks_share_memory = false;
  return config;
}

std::string device_text(const std::optional<FoundDevice>& device) {
  return device ? device->name + ", " + device->uuid : "cpu";
}

void check_device_memory(double planned_bytes, std::int64_t ranks, const FoundDevice& device,
                         const std::string& host) {
  const double needed = planned_bytes * static_cast<double>(ranks);
  if (device.free_bytes <= 0 || needed <= device.free_bytes) return;
  const std::string who = ranks == 1 ? "a rank needs"
                                     : std::to_string(ranks) + " ranks of " +
                                           format_bytes_binary(planned_bytes) + " need";
  throw Error(
      ExitCode::kNo, "NQD1407",
      who + " " + format_bytes_binary(needed) + " by plan, but GPU " +
          std::to_string(device.index) + " of host " + host + " (" + device.name + ", " +
          format_bytes_binary(device.total_bytes) + ") has " +
          format_bytes_binary(device.free_bytes) +
          " free: " + format_bytes_binary(needed - device.free_bytes) + " too much",
      std::string(ranks > 1 ? "start one rank a GPU, or " : "") +
          "use a smaller micro_batch_size, train.recompute, parallel.engine: zero3 or more "
          "tensor parallelism (`nqd mesh-plan` says what fits); `nvidia-smi` shows what else is "
          "on the GPU");
}

std::vector<DeviceWarning> device_warnings(const std::string& planned_gpu,
                                           const std::vector<RankIdentity>& ranks) {
  std::vector<DeviceWarning> warnings;
  if (planned_gpu.empty()) return warnings;
  const auto other = std::find_if(ranks.begin(), ranks.end(), [&](const RankIdentity& rank) {
    return on_gpu(rank) && !has_word(rank.device, chip_of(planned_gpu));
  });
  if (other != ranks.end()) warnings.push_back(other_device(planned_gpu, *other));
  std::map<std::string, std::vector<RankIdentity>> hosts;
  for (const RankIdentity& rank : ranks) {
    if (on_gpu(rank)) hosts[rank.host].push_back(rank);
  }
  for (const auto& [host, there] : hosts) {
    const auto count = static_cast<std::int64_t>(there.size());
    const std::int64_t devices = device_count(there);
    if (devices >= count) continue;
    warnings.push_back(shared_device(there.front(), count, devices));
    break;
  }
  return warnings;
}

std::int64_t device_count(const std::vector<RankIdentity>& ranks) {
  std::set<std::string> gpus;
  std::int64_t cpus = 0;
  for (const RankIdentity& rank : ranks) {
    if (on_gpu(rank)) {
      gpus.insert(rank.device);
    } else {
      ++cpus;
    }
  }
  return cpus + static_cast<std::int64_t>(gpus.size());
}

std::int64_t ranks_on_device_of(const std::vector<RankIdentity>& ranks, int rank) {
  const std::string& device = ranks[static_cast<std::size_t>(rank)].device;
  return std::count_if(ranks.begin(), ranks.end(),
                       [&](const RankIdentity& other) { return other.device == device; });
}

}  // namespace nqd::engine
