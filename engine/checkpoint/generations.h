// The folder of checkpoints of a run:
//
//   LATEST                      "step-000000000100-1f2e3d4c SHA-256-OF-ITS-MANIFEST\n"
//   step-000000000100-1f2e3d4c/ a generation: rank-00000.safetensors …, manifest.json,
//                               manifest.sha256
//
// A generation counts when its manifest does: the manifest is written last, when all files are on
// the disk and have been read back, and LATEST names it after that. Readers look at nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/storage.h"

namespace nqd::engine {

inline constexpr const char* kLatest = "LATEST";
inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kManifestDigest = "manifest.sha256";

// `run` (8 hexadecimal digits) keeps apart what two runs save of one step.
std::string generation_name(std::int64_t step, std::string_view run);

struct Latest {
  std::string generation;
  std::string manifest_sha256;
};
// Nothing where there is none. Throws Error (kUsage, NQD2082) when it is damaged.
std::optional<Latest> read_latest(const Storage& storage, const std::filesystem::path& root);

// The text of a generation's manifest. Throws Error (kUsage): NQD2080 where there is none, NQD2082
// when it is not that of its digest.
std::string read_manifest(const Storage& storage, const std::filesystem::path& generation);

// What the text that read_manifest gave says. Throws Error (kUsage) as parse_manifest does, and
// NQD2080 when it is of another step or generation than its name and that of its folder say. A
// folder whose name is none of a generation may hold any.
Manifest manifest_of(const std::string& text, const std::filesystem::path& generation);

// All ranks' files are written and synced: makes the generation count, and LATEST name it.
void publish(Storage& storage, const std::filesystem::path& root, const Manifest& manifest);

// The record of a rank's file beside it, until the manifest holds it.
void write_record(Storage& storage, const std::filesystem::path& generation,
                  const CheckpointFile& file);
// Publishes `head` with the records of its files, by name, and removes those.
void publish_recorded(Storage& storage, const std::filesystem::path& root, Manifest head,
                      const std::vector<std::string>& files);

struct GenerationInfo {
  std::string name;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  std::string written_at;
  std::string mesh;
  bool complete = false;  // its manifest, and files of the sizes that it says
  bool latest = false;
  bool cut = false;  // its save did not come to its manifest
  std::string why;   // of one that is not complete
  // The disk did not say whether it is complete, or whether LATEST names it.
  bool uncertain = false;
  std::vector<std::string> lineage;
};
// Of the manifest in `generation`, and whether its files are there. Reads no values.
GenerationInfo describe_generation(const Storage& storage, const std::filesystem::path& generation);
// By step; of one step, that which LATEST names is the last.
std::vector<GenerationInfo> list_generations(const Storage& storage,
                                             const std::filesystem::path& root);

// Whether `head` is of a run that went on from an earlier generation of the run of `one`: then
// `one` is no part of its past.
bool is_left_behind(const GenerationInfo& one, const GenerationInfo& head);

// Whether a generation of this name is one that the run `run` saved, or the past of a run with this
// lineage: of a run that it goes back to, and no later than the generation that it went on from.
bool is_of_past(const std::string& name, std::string_view run,
                const std::vector<std::string>& lineage);
// Of `head`.
bool is_of_past(const GenerationInfo& one, const GenerationInfo& head);

// Whether their runs, or runs that these went on from, have one in common.
bool are_related(const GenerationInfo& a, const GenerationInfo& b);

struct FoundGeneration {
  std::filesystem::path folder;
  std::string warning;  // why it is not the one that LATEST names; empty when it is
};
// What to resume from: `path` when it is a generation; else what its LATEST names; else, where
// LATEST is missing, or it or that generation's manifest is damaged, the newest complete one that
// no other left behind. Nothing where no save was ever complete. Throws Error (kUsage) of the
// damage when there is no complete one.
std::optional<FoundGeneration> find_generation(const Storage& storage,
                                               const std::filesystem::path& path);
// That, and the complete ones before it of the same run and those it went on from, the newest
// first: what else to resume from where its values turn out to be damaged. It alone where `path` is
// a generation.
std::vector<FoundGeneration> find_generations(const Storage& storage,
                                              const std::filesystem::path& path);

// Its manifest first: a removal that is cut short leaves nothing that looks whole. Of a link to a
// folder the link alone.
void remove_generation(Storage& storage, const std::filesystem::path& folder);
// Removes what a save that failed has left, unless it came to its manifest.
void discard_cut(Storage& storage, const std::filesystem::path& folder);

}  // namespace nqd::engine
