// NCCL_* variables that cost speed.
#include <array>
#include <map>
#include <set>
#include <string>

#include "collectives/nccl/log_parts.h"

namespace nqd::collectives {
namespace {

// Whether a variable with this value takes a path away (docs.nvidia.com/deeplearning/nccl, section
// environment variables).
bool takes_away(std::string_view name, std::string_view value) {
  constexpr std::array<std::string_view, 6> kDisables = {
      "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",        "NCCL_IB_DISABLE",
      "NCCL_NET_DISABLE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_CUMEM_DISABLE"};
  if (std::find(kDisables.begin(), kDisables.end(), name) != kDisables.end()) return is_on(value);
  if (name == "NCCL_NET_GDR_LEVEL" || name == "NCCL_P2P_LEVEL") {
    return value == "0" || value == "LOC";
  }
  if (name == "NCCL_NET_GDR_READ" || name == "NCCL_NVLS_ENABLE") return value == "0";
  return name == "NCCL_NET" && value == "Socket";
}

// Those that replace a choice of NCCL's tuner.
bool tunes(std::string_view name) {
  constexpr std::array<std::string_view, 11> kTuning = {
      "NCCL_ALGO",       "NCCL_PROTO",      "NCCL_MAX_NCHANNELS",     "NCCL_MIN_NCHANNELS",
      "NCCL_MAX_CTAS",   "NCCL_MIN_CTAS",   "NCCL_NTHREADS",          "NCCL_BUFFSIZE",
      "NCCL_MAX_NRINGS", "NCCL_MIN_NRINGS", "NCCL_NET_SHARED_BUFFERS"};
  return std::find(kTuning.begin(), kTuning.end(), name) != kTuning.end();
}

}  // namespace

void judge_environment(const NcclLog& log, std::vector<Verdict>& verdicts) {
  std::map<std::string, std::set<std::string>> values;
  for (const NcclProcess& process : log.processes) {
    for (const auto& [name, value] : process.environment) values[name].insert(value);
  }
  std::vector<std::string> harmful, tuning, unequal;
  for (const auto& [name, all] : values) {
    const std::string shown = name + "=" + joined_names(all);
    const bool bad = std::any_of(all.begin(), all.end(),
                                 [&](const std::string& value) { return takes_away(name, value); });
    if (bad) harmful.push_back(shown);
    if (tunes(name)) tuning.push_back(shown);
    // Interfaces and adapters may have other names on other hosts.
    const bool of_host = name == "NCCL_SOCKET_IFNAME" || name == "NCCL_IB_HCA" ||
                         name == "NCCL_HOSTID" || name == "NCCL_TOPO_FILE";
    if (all.size() > 1 && !of_host) unequal.push_back(shown);
  }
  const std::string threshold = "NCCL's own choice";
  if (!harmful.empty()) {
    verdicts.push_back({"env-override", "warning", "certain",
                        "set by environment: " + joined_names(harmful), threshold,
                        "the environment takes a faster path away from NCCL",
                        "unset it, unless a measurement on this fabric asks for it; look into "
                        "/etc/nccl.conf, ~/.nccl.conf and the image too"});
  }
  if (!unequal.empty()) {
    verdicts.push_back({"env-override", "warning", "certain",
                        "other values in other processes: " + joined_names(unequal),
                        "one value in all processes",
                        "ranks that choose differently hang or fail when they meet",
                        "export the variable to every rank (mpirun -x NAME)"});
  }
  if (!tuning.empty()) {
    verdicts.push_back({"env-override", "info", "certain",
                        "set by environment: " + joined_names(tuning), threshold,
                        "a setting replaces what NCCL's tuner would choose for each size",
                        "measure without it as well"});
  }
}

}  // namespace nqd::collectives
