#include "engine/train/resume_source.h"

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "engine/checkpoint/tiers.h"
#include "engine/parallel/agree.h"
#include "engine/train/across_ranks.h"
#include "engine/train/background.h"

namespace nqd::engine {
namespace {

// Of a generation, so that another may do.
bool is_damage(const Error& error) {
  return error.code() == "NQD2080" || error.code() == "NQD2082" || error.code() == "NQD2083";
}

// Likewise, or of a disk that does not let it be read.
bool is_unreadable(const Error& error) { return is_damage(error) || error.code() == "NQD2001"; }

}  // namespace

bool saves_on_its_way(const planner::CheckpointSpec& spec) {
  return spec.every > 0 || spec.every_s > 0;
}

// The best first.
std::vector<FoundGeneration> ResumeSource::candidates() const {
  if (options_.resume.empty()) return {};
  if (!spec_.durable_path.empty() && options_.resume == options_.folder) {
    return find_in_tiers(storage_, options_.folder, spec_.durable_path);
  }
  return find_generations(storage_, options_.resume);
}

void ResumeSource::refuse_one_folder() const {
  if (spec_.durable_path.empty()) return;
  std::error_code error;  // one that is not there yet is no other's equivalent
  const std::filesystem::path durable = spec_.durable_path;
  if (durable.lexically_normal() != options_.folder.lexically_normal() &&
      !std::filesystem::equivalent(durable, options_.folder, error)) {
    return;
  }
  throw Error(ExitCode::kUsage, "NQD2086",
              "checkpoint.durable_path is " + durable.string() +
                  ", the folder that the run saves to: nothing would be copied",
              "set a folder on another disk, or leave it out");
}

// `source` is null for a run that starts anew. A run may save when it is asked to stop, whatever
// its config says.
void ResumeSource::refuse_to_mix(const CheckpointReader* source) const {
  if (options_.folder.empty()) return;
  for (const std::filesystem::path& folder :
       {options_.folder, std::filesystem::path(spec_.durable_path)}) {
    if (folder.empty() || !has_others(folder, source)) continue;
    if (source == nullptr) {
      throw Error(ExitCode::kUsage, "NQD2085",
                  folder.string() +
                      " has the generations of a run, and this one would start "
                      "anew among them",
                  "pass --resume auto to go on with it, or set another checkpoint.path");
    }
    throw Error(ExitCode::kUsage, "NQD2085",
                folder.string() + " has the generations of another run than that of " +
                    source->folder().string() + ", and this one would go on among them",
                "set another checkpoint.path or --output-dir, or another durable_path");
  }
}

// Whether what was saved to the folder has nothing to do with `source`.
bool ResumeSource::has_others(const std::filesystem::path& folder,
                              const CheckpointReader* source) const {
  std::vector<GenerationInfo> saved = list_generations(storage_, folder);
  std::erase_if(saved, [](const GenerationInfo& one) { return one.cut; });
  if (source == nullptr) return !saved.empty() || storage_.exists(folder / kLatest);
  std::error_code error;
  if (std::filesystem::equivalent(source->folder().parent_path(), folder, error)) return false;
  GenerationInfo own;
  own.name = source->manifest().generation;
  own.lineage = source->manifest().lineage;
  return !saved.empty() && std::none_of(saved.begin(), saved.end(),
                                        [&](const auto& one) { return are_related(one, own); });
}

// The folders that all ranks read, though another run may publish meanwhile.
std::vector<std::string> ResumeSource::agreed_candidates() {
  std::vector<FoundGeneration> found;
  attempt_together(world_, [&] {
    if (world_.rank() != 0) return;
    refuse_one_folder();
    found = candidates();
    if (found.empty()) return refuse_to_mix(nullptr);
    if (!found.front().warning.empty()) log::warn(found.front().warning);
  });
  std::vector<std::string> folders;
  for (std::size_t i = 0;; ++i) {
    std::string folder = of_rank_0(world_, i < found.size() ? found[i].folder.string() : "");
    if (folder.empty()) return folders;
    folders.push_back(std::move(folder));
  }
}

// Collective. `thoroughly`: every byte against its checksum, shared out over the ranks.
std::unique_ptr<CheckpointReader> ResumeSource::open_checked(const SavedRun& run,
                                                             const std::string& folder,
                                                             bool thoroughly) {
  std::unique_ptr<CheckpointReader> reader;
  attempt_together(world_, [&] {
    reader = std::make_unique<CheckpointReader>(storage_, folder);
    RunValues values = run.values;
    values["data.digest"] = run.data_digest;
    check_resumable(reader->manifest(), values, options_.allowed_changes);
  });
  if (!thoroughly) return reader;
  attempt_at_length(world_, [&] {
    const auto ranks = static_cast<std::size_t>(world_.size());
    const std::size_t files = reader->manifest().files.size();
    for (auto file = static_cast<std::size_t>(world_.rank()); file < files; file += ranks) {
      const std::vector<CheckpointDamage> damage = reader->verify_file(file);
      if (damage.empty()) continue;
      throw Error(ExitCode::kUsage, "NQD2082",
                  (reader->folder() / damage.front().file).string() + ": " + damage.front().what,
                  "resume from another generation (`nqd checkpoint list` shows them)");
    }
  });
  return reader;
}

std::unique_ptr<CheckpointReader> ResumeSource::open(const SavedRun& run) {
  const std::vector<std::string> folders = agreed_candidates();
  std::unique_ptr<CheckpointReader> reader;
  for (std::size_t i = 0; i < folders.size() && !reader; ++i) {
    const bool has_other = i + 1 < folders.size();
    try {
      reader = open_checked(run, folders[i], has_other);
    } catch (const Error& error) {
      if (!has_other || !is_damage(error)) throw;
      warn_of("going on from " + folders[i + 1] + " in place of " + folders[i], error);
    }
  }
  attempt_together(world_, [&] {
    if (world_.rank() != 0) return;
    if (reader) return refuse_to_mix(reader.get());
    // A later attempt, which finds a generation, would be refused.
    RunValues values = run.values;
    values["data.digest"] = run.data_digest;
    check_allowed_changes(values, options_.allowed_changes);
  });
  return reader;
}

std::vector<std::filesystem::path> ResumeSource::past_generations(
    const SavedRun& run, std::int64_t step, const std::filesystem::path& resumed_from) const {
  std::vector<std::filesystem::path> folders;
  for (const std::filesystem::path& folder :
       {options_.folder, std::filesystem::path(spec_.durable_path), resumed_from.parent_path()}) {
    const bool known = std::find(folders.begin(), folders.end(), folder) != folders.end();
    if (!folder.empty() && !known) folders.push_back(folder);
  }
  std::vector<std::pair<GenerationInfo, std::filesystem::path>> found;
  for (const std::filesystem::path& folder : folders) {
    try {
      for (GenerationInfo& one : list_generations(storage_, folder)) {
        const std::filesystem::path path = folder / one.name;
        // A save that was cut short is none.
        const bool counts = one.complete || one.uncertain || storage_.exists(path / kManifest);
        if (!counts || one.step > step || !is_of_past(one.name, run.id, run.lineage)) continue;
        found.emplace_back(std::move(one), path);
      }
    } catch (const Error& error) {
      warn_of("not going back to what is in " + folder.string(), error);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.step, a.first.written_at) > std::tie(b.first.step, b.first.written_at);
  });
  std::vector<std::filesystem::path> paths;
  for (auto& [info, path] : found) paths.push_back(std::move(path));
  // A generation that was named may lie in a folder of any name.
  const bool listed = std::find(paths.begin(), paths.end(), resumed_from) != paths.end();
  if (!resumed_from.empty() && !listed) paths.push_back(resumed_from);
  return paths;
}

ResumeSource::GoneBack ResumeSource::go_back(
    const SavedRun& run, std::int64_t step, const std::filesystem::path& resumed_from,
    const std::function<void(const CheckpointReader&)>& restore) {
  std::vector<std::filesystem::path> past;
  attempt_together(world_, [&] {
    if (world_.rank() == 0) past = past_generations(run, step, resumed_from);
  });
  GoneBack back;
  for (std::size_t i = 0;; ++i) {
    const std::string folder = of_rank_0(world_, i < past.size() ? past[i].string() : "");
    if (folder.empty()) return back;
    try {
      std::unique_ptr<CheckpointReader> reader;
      attempt_together(world_, [&] {
        reader = std::make_unique<CheckpointReader>(storage_, folder);
        restore(*reader);
      });
      back.reader = std::move(reader);
      return back;
    } catch (const Error& error) {
      if (!is_unreadable(error)) throw;
      warn_of("not going back to " + folder, error);
      back.skipped.emplace_back(error.what());
    }
  }
}

}  // namespace nqd::engine
