// The frame of every evidence document: who measured what, where, with which build and input.
#pragma once

#include <string>
#include <vector>

#include "base/host.h"
#include "engine/records.h"
#include "planner/spec.h"

namespace nqd::reports {

inline constexpr int kSchemaVersion = 1;

struct Envelope {
  std::string kind;               // "bench", "train", "calibration", "doctor"
  std::vector<std::string> argv;
  std::string config_path;        // empty when the command has no config
  std::string config_yaml;        // canonical resolved text
  std::vector<planner::ResolvedValue> resolved;
  int world_size_asked = 1;
  int world_size_actual = 1;
  std::string backend;            // "local", "mpi"
  std::vector<engine::RankIdentity> ranks;
  std::vector<std::pair<std::string, std::string>> libraries;  // {"mpi", "Open MPI v4.1.4"}, …
  HostInfo host;
  std::string started_at;  // UTC, ISO 8601
  std::string ended_at;
};

// Fills host, started_at and the build's library versions known here.
Envelope begin_envelope(std::string kind, std::vector<std::string> argv);
// UTC now, "2026-11-29T14:25:13Z".
std::string now_utc();
// Version, git commit, build type, compiler of this binary.
struct BuildInfo {
  std::string version, git_commit, build_type, compiler;
};
BuildInfo build_info();

}  // namespace nqd::reports
