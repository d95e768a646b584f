#include "cli/bench/cluster.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "planner/config/config.h"

namespace nqd::cli {
namespace {

// A config of the text: its cluster section as it is, or made of all of its keys.
std::string as_config(const std::string& text) {
  if (text.starts_with("cluster:") || text.find("\ncluster:") != std::string::npos) return text;
  std::string config = "cluster:\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) config += "  " + line + "\n";
  return config;
}

}  // namespace

double promised_bandwidth(const std::string& cluster) {
  const bool is_file = std::filesystem::exists(cluster);
  const std::string text =
      is_file ? as_config(read_file(cluster)) : "cluster: {preset: " + cluster + "}\n";
  const planner::LoadedConfig loaded = planner::load_config_text(text, cluster);
  // A file of the cluster alone has no model, and no mesh that must fit.
  const auto concerns = [](const Diagnostic& diagnostic) {
    return diagnostic.severity == Severity::kError && diagnostic.code.starts_with("NQD10") &&
           (diagnostic.path.empty() || diagnostic.path.starts_with("cluster")) &&
           diagnostic.code != "NQD1028";
  };
  const auto problem = std::find_if(loaded.diagnostics.begin(), loaded.diagnostics.end(), concerns);
  if (problem != loaded.diagnostics.end()) {
    throw Error(ExitCode::kUsage, "NQD2104",
                "--cluster " + cluster + " is no cluster: " + problem->message,
                problem->hint.empty() ? "give a preset such as dgx-h100, or a YAML file with a "
                                        "cluster section"
                                      : problem->hint);
  }
  const planner::ClusterSpec& spec = loaded.config.cluster;
  return spec.inter_node.bandwidth_bytes_per_s * static_cast<double>(spec.gpus_per_node);
}

}  // namespace nqd::cli
