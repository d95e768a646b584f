#include "engine/checkpoint/generations.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "engine/io/checkpoint_json.h"

namespace nqd::engine {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::size_t kStepDigits = 12;
constexpr std::size_t kDigestDigits = 64;

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + kStepDigits + 2) return {};
  const std::string_view digits = name.substr(kPrefix.size(), kStepDigits);
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const std::string_view run = name.substr(kPrefix.size() + kStepDigits);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return {};
  if (run.front() != '-' || !is_hex(run.substr(1))) return {};
  return step;
}

// Digits behind the step. Precondition: step_of(name).
std::string_view run_of(std::string_view name) {
  return name.substr(kPrefix.size() + kStepDigits + 1);
}

std::string digest_line(const std::string& sha256) { return sha256 + "  " + kManifest + "\n"; }

std::string record_name(const std::string& file) { return file + ".json"; }

[[noreturn]] void throw_damaged(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2082", path.string() + " " + why,
              "name a generation: `nqd checkpoint list` shows them, with what is wrong");
}

void note_missing_files(const Storage& storage, const std::filesystem::path& generation,
                        const Manifest& manifest, GenerationInfo& info) {
  for (const CheckpointFile& file : manifest.files) {
    const std::filesystem::path path = generation / file.name;
    if (!storage.exists(path)) {
      info.why = path.string() + " is missing";
    } else if (const std::uint64_t size = storage.open(path)->size(); size != file.bytes) {
      info.why = path.string() + " has " + std::to_string(size) + " bytes in place of " +
                 std::to_string(file.bytes);
    }
    if (!info.why.empty()) return;
  }
  info.complete = true;
}

std::set<std::string_view> runs_of(const GenerationInfo& info) {
  std::set<std::string_view> runs;
  if (step_of(info.name)) runs.insert(run_of(info.name));
  for (const std::string& past : info.lineage) {
    if (step_of(past)) runs.insert(run_of(past));
  }
  return runs;
}

const GenerationInfo* newest_complete(const std::vector<GenerationInfo>& all) {
  const auto newest = std::find_if(all.rbegin(), all.rend(), [&](const GenerationInfo& one) {
    return one.complete && std::none_of(all.begin(), all.end(), [&](const GenerationInfo& other) {
             return is_left_behind(one, other);
           });
  });
  return newest == all.rend() ? nullptr : &*newest;
}

// A disk that fails does not say that something is damaged.
bool is_unread(const Error& error) { return error.code() == "NQD2001"; }

}  // namespace

std::string generation_name(std::int64_t step, std::string_view run) {
  char text[40];
  std::snprintf(text, sizeof text, "step-%012lld-", static_cast<long long>(step));
  return text + std::string(run);
}

std::optional<Latest> read_latest(const Storage& storage, const std::filesystem::path& root) {
  const std::filesystem::path path = root / kLatest;
  if (!storage.exists(path)) return std::nullopt;
  const std::string text = read_text(storage, path);
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.size() != space + 1 + kDigestDigits + 1 ||
      text.back() != '\n') {
    throw_damaged(path, "does not name a generation");
  }
  Latest latest{text.substr(0, space), text.substr(space + 1, kDigestDigits)};
  if (!step_of(latest.generation) || !is_hex(latest.manifest_sha256)) {
    throw_damaged(path, "does not name a generation");
  }
  return latest;
}

std::string read_manifest(const Storage& storage, const std::filesystem::path& generation) {
  const std::filesystem::path path = generation / kManifest;
  for (const char* const name : {kManifest, kManifestDigest}) {
    if (storage.exists(generation / name)) continue;
    throw Error(ExitCode::kUsage, "NQD2080",
                generation.string() + " is no complete generation: it has no " + name,
                "name a complete one: `nqd checkpoint list` shows them");
  }
  std::string text = read_text(storage, path);
  if (read_text(storage, generation / kManifestDigest) != digest_line(sha256_hex(text))) {
    throw_damaged(path, std::string("and ") + kManifestDigest + " are not of one another");
  }
  return text;
}

Manifest manifest_of(const std::string& text, const std::filesystem::path& generation) {
  const std::filesystem::path path = generation / kManifest;
  Manifest manifest = parse_manifest(text, path.string());
  const std::string folder = generation.filename().string();
  std::string wrong;
  if (step_of(manifest.generation) != manifest.state.step) {
    wrong = "its state is of step " + std::to_string(manifest.state.step) + ", its name is " +
            manifest.generation;
  } else if (step_of(folder) && folder != manifest.generation) {
    wrong = "it is that of " + manifest.generation;
  }
  if (wrong.empty()) return manifest;
  throw Error(ExitCode::kUsage, "NQD2080",
              path.string() + " is no usable checkpoint manifest: " + wrong,
              "resume from another generation (`nqd checkpoint list` shows them)");
}

void publish(Storage& storage, const std::filesystem::path& root, const Manifest& manifest) {
  const std::filesystem::path folder = root / manifest.generation;
  const std::string text = manifest_json(manifest);
  const std::string sha256 = sha256_hex(text);
  replace_text(storage, folder / kManifestDigest, digest_line(sha256));
  replace_text(storage, folder / kManifest, text);
  read_manifest(storage, folder);
  storage.sync_folder(root);
  replace_text(storage, root / kLatest, manifest.generation + " " + sha256 + "\n");
}

void write_record(Storage& storage, const std::filesystem::path& generation,
                  const CheckpointFile& file) {
  replace_text(storage, generation / record_name(file.name), checkpoint_file_json(file));
}

void publish_recorded(Storage& storage, const std::filesystem::path& root, Manifest head,
                      const std::vector<std::string>& files) {
  const std::filesystem::path folder = root / head.generation;
  for (const std::string& file : files) {
    const std::filesystem::path path = folder / record_name(file);
    head.files.push_back(parse_checkpoint_file(read_text(storage, path), path.string()));
  }
  publish(storage, root, head);
  for (const std::string& file : files) storage.remove(folder / record_name(file));
}

GenerationInfo describe_generation(const Storage& storage,
                                   const std::filesystem::path& generation) {
  GenerationInfo info;
  info.name = generation.filename().string();
  info.step = step_of(info.name).value_or(0);
  try {
    info.cut = !storage.exists(generation / kManifest);
    const Manifest manifest = manifest_of(read_manifest(storage, generation), generation);
    info.written_at = manifest.written_at;
    info.mesh = manifest.mesh;
    info.lineage = manifest.lineage;
    for (const CheckpointFile& file : manifest.files) info.bytes += file.bytes;
    note_missing_files(storage, generation, manifest, info);
  } catch (const Error& error) {
    info.why = error.what();
    info.uncertain = is_unread(error);
  }
  return info;
}

std::vector<GenerationInfo> list_generations(const Storage& storage,
                                             const std::filesystem::path& root) {
  std::string latest;
  bool uncertain = false;
  try {
    if (const auto found = read_latest(storage, root)) latest = found->generation;
  } catch (const Error& error) {
    // The list is what shows which generations are left.
    uncertain = is_unread(error);
  }
  std::vector<GenerationInfo> all;
  for (const std::string& name : storage.list(root)) {
    if (!step_of(name)) continue;
    all.push_back(describe_generation(storage, root / name));
    all.back().latest = name == latest;
    all.back().uncertain = all.back().uncertain || uncertain;
  }
  std::stable_sort(all.begin(), all.end(), [](const GenerationInfo& a, const GenerationInfo& b) {
    // A clock may have gone back, and two runs may save a step in the same second.
    return std::tie(a.step, a.latest, a.written_at) < std::tie(b.step, b.latest, b.written_at);
  });
  return all;
}

namespace {

// What LATEST names. Nothing where there is no LATEST.
std::optional<std::filesystem::path> latest_generation(const Storage& storage,
                                                       const std::filesystem::path& root) {
  const std::optional<Latest> latest = read_latest(storage, root);
  if (!latest) return std::nullopt;
  const std::filesystem::path folder = root / latest->generation;
  try {
    if (sha256_hex(read_manifest(storage, folder)) == latest->manifest_sha256) return folder;
  } catch (const Error&) {
    // A run may have saved its next one and removed that one meanwhile.
    const std::optional<Latest> now = read_latest(storage, root);
    if (now && now->generation != latest->generation) return latest_generation(storage, root);
    throw;
  }
  throw_damaged(root / kLatest, "does not name the manifest in " + folder.string());
}

}  // namespace

std::optional<FoundGeneration> find_generation(const Storage& storage,
                                               const std::filesystem::path& path) {
  if (storage.exists(path / kManifest)) return FoundGeneration{path, ""};
  const std::filesystem::path latest = path / kLatest;
  const auto fall_back = [&](const std::vector<GenerationInfo>& all, const std::string& why) {
    std::optional<FoundGeneration> found;
    if (const GenerationInfo* const newest = newest_complete(all)) {
      found = {path / newest->name, latest.string() + " " + why};
    }
    return found;
  };
  try {
    if (auto folder = latest_generation(storage, path)) return FoundGeneration{*folder, ""};
  } catch (const Error& error) {
    auto found = fall_back(
        list_generations(storage, path),
        "is of no use, so the newest complete generation is taken: " + std::string(error.what()));
    if (!found) throw;
    return found;
  }
  const std::vector<GenerationInfo> all = list_generations(storage, path);
  auto found = fall_back(all, "is missing, so the newest complete generation is taken");
  const auto damaged =
      std::find_if(all.rbegin(), all.rend(), [](const GenerationInfo& one) { return !one.cut; });
  if (!found && damaged != all.rend()) {
    throw_damaged(latest, "is missing, and no generation is complete: " + damaged->why);
  }
  return found;
}

std::vector<FoundGeneration> find_generations(const Storage& storage,
                                              const std::filesystem::path& path) {
  auto first = find_generation(storage, path);
  if (!first) return {};
  const std::filesystem::path folder = first->folder;
  std::vector<FoundGeneration> found{std::move(*first)};
  if (folder == path) return found;
  const GenerationInfo head = describe_generation(storage, folder);
  const std::vector<GenerationInfo> all = list_generations(storage, path);
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (!one->complete || one->name == head.name || one->step > head.step) continue;
    if (is_of_past(*one, head)) found.push_back({path / one->name, ""});
  }
  return found;
}

bool is_left_behind(const GenerationInfo& one, const GenerationInfo& head) {
  if (!step_of(one.name)) return false;
  const std::string_view run = run_of(one.name);
  return std::any_of(head.lineage.begin(), head.lineage.end(), [&](const std::string& past) {
    const std::optional<std::int64_t> step = step_of(past);
    return step && run_of(past) == run && *step < one.step;
  });
}

bool is_of_past(const std::string& name, std::string_view run,
                const std::vector<std::string>& lineage) {
  const std::optional<std::int64_t> step = step_of(name);
  if (!step) return false;
  if (run_of(name) == run) return true;
  return std::any_of(lineage.begin(), lineage.end(), [&](const std::string& past) {
    const std::optional<std::int64_t> last = step_of(past);
    return last && run_of(past) == run_of(name) && *step <= *last;
  });
}

bool is_of_past(const GenerationInfo& one, const GenerationInfo& head) {
  return step_of(head.name) && is_of_past(one.name, run_of(head.name), head.lineage);
}

bool are_related(const GenerationInfo& a, const GenerationInfo& b) {
  const std::set<std::string_view> runs = runs_of(b);
  const auto own = runs_of(a);
  return std::any_of(own.begin(), own.end(), [&](auto run) { return runs.contains(run); });
}

void remove_generation(Storage& storage, const std::filesystem::path& folder) {
  if (storage.is_link(folder)) return storage.remove(folder);
  storage.remove(folder / kManifest);
  storage.sync_folder(folder);
  for (const std::string& name : storage.list(folder)) storage.remove(folder / name);
  storage.remove(folder);
}

void discard_cut(Storage& storage, const std::filesystem::path& folder) {
  if (!storage.exists(folder) || storage.exists(folder / kManifest)) return;
  remove_generation(storage, folder);
}

}  // namespace nqd::engine
