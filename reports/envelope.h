// The frame of every evidence document: who measured what, where, with which build and input.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/host.h"
#include "engine/records.h"
#include "planner/spec.h"

namespace nqd::reports {

inline constexpr int kSchemaVersion = 1;

// The binary that measured. `git_commit` ends in "-dirty" when tracked files differed from the
// commit at build time, and is "unknown" when the sources were no git checkout.
struct BuildInfo {
  std::string version, git_commit, build_type, compiler;
};
BuildInfo build_info();

struct Envelope {
  std::string kind;  // "bench", "train", "calibration", "doctor"
  BuildInfo tool;
  std::vector<std::string> argv;
  std::string config_path;  // empty when the command has no config
  std::string config_yaml;  // canonical resolved text
  std::vector<planner::ResolvedValue> resolved;
  int world_size_asked = 1;
  int world_size_actual = 1;
  std::string backend;  // "local", "mpi", or empty when no rank communicated
  std::vector<engine::RankIdentity> ranks;
  std::vector<std::pair<std::string, std::string>> libraries;  // {"mpi", "Open MPI v4.1.4"}, …
  // Variables that change what is measured, from an allow-list; never the whole environment.
  Variables environment;
  HostInfo host;
  std::string started_at;  // UTC, ISO 8601
  std::string ended_at;    // set by the command when its work is done
};

// Fills tool, host, environment, started_at and the libraries of this build (libc, GEMM, MPI). The
// command adds config, world, backend, ranks and, last, ended_at.
Envelope begin_envelope(std::string kind, std::vector<std::string> argv);

// UTC now, "2026-11-29T14:25:13Z".
std::string now_utc();

}  // namespace nqd::reports
