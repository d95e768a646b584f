#include "engine/checkpoint/keep.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "engine/checkpoint/generations.h"

namespace nqd::engine {
namespace {

using Names = std::set<std::string>;

// What LATEST names, where that is whole; else the newest.
const GenerationInfo* head_of(const std::vector<GenerationInfo>& all) {
  const GenerationInfo* head = nullptr;
  for (const GenerationInfo& one : all) {
    if (!one.complete) continue;
    if (one.latest) return &one;
    head = &one;
  }
  return head;
}

// Of the run of `head`, its past, or what went on from it.
bool is_of_its_line(const GenerationInfo& one, const GenerationInfo& head) {
  return is_of_past(one, head) || is_left_behind(one, head) ||
         std::find(one.lineage.begin(), one.lineage.end(), head.name) != one.lineage.end();
}

void keep_newest(const std::vector<GenerationInfo>& all, const GenerationInfo& head,
                 std::int64_t last, Names& kept) {
  std::int64_t found = 0;
  for (auto one = all.rbegin(); one != all.rend() && found < last; ++one) {
    if (!one->complete || is_left_behind(*one, head) || !is_of_its_line(*one, head)) continue;
    kept.insert(one->name);
    ++found;
  }
}

void keep_by_time(const std::vector<GenerationInfo>& all, double interval_s, Names& kept) {
  std::map<double, std::pair<std::int64_t, std::string>> first;  // of each interval
  for (const GenerationInfo& one : all) {
    const std::optional<std::int64_t> written = unix_seconds(one.written_at);
    if (!one.complete || !written) continue;
    const double interval = std::floor(static_cast<double>(*written) / interval_s);
    const auto [at, added] = first.try_emplace(interval, *written, one.name);
    if (!added && *written < at->second.first) at->second = {*written, one.name};
  }
  for (const auto& [interval, one] : first) kept.insert(one.second);
}

// Those that a save may be writing.
void keep_unfinished(const std::vector<GenerationInfo>& all, const GenerationInfo& head,
                     Names& kept) {
  std::int64_t newest = head.step;
  for (const GenerationInfo& one : all) {
    const bool counts = one.complete && !is_left_behind(one, head) && is_of_its_line(one, head);
    if (counts) newest = std::max(newest, one.step);
  }
  for (const GenerationInfo& one : all) {
    if (!one.complete && one.step > newest && !is_left_behind(one, head)) kept.insert(one.name);
  }
}

}  // namespace

std::vector<std::string> prune(Storage& storage, const std::filesystem::path& root,
                               const KeepPolicy& policy, const std::vector<std::string>& in_use) {
  const std::vector<GenerationInfo> all = list_generations(storage, root);
  const GenerationInfo* const head = head_of(all);
  if (head == nullptr) return {};
  Names kept(in_use.begin(), in_use.end());
  keep_newest(all, *head, policy.last, kept);
  keep_unfinished(all, *head, kept);
  if (policy.interval_s > 0) keep_by_time(all, policy.interval_s, kept);
  for (const GenerationInfo& one : all) {
    const bool divides = policy.every > 0 && one.step % policy.every == 0;
    // A run that ended between its save and LATEST leaves a sibling of what went on without it.
    const bool foreign = !one.cut && !is_of_its_line(one, *head) && !are_related(one, *head);
    if (one.latest || one.uncertain || foreign || (one.complete && divides)) kept.insert(one.name);
  }
  std::vector<std::string> removed;
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (kept.contains(one->name)) continue;
    remove_generation(storage, root / one->name);
    removed.push_back(one->name);
  }
  if (!removed.empty()) storage.sync_folder(root);
  return removed;
}

std::vector<std::string> remove_cut(Storage& storage, const std::filesystem::path& root) {
  std::vector<std::string> removed;
  for (const GenerationInfo& one : list_generations(storage, root)) {
    // What a link leads to may only be away.
    if (!one.cut || one.latest || storage.is_link(root / one.name)) continue;
    remove_generation(storage, root / one.name);
    removed.push_back(one.name);
  }
  if (!removed.empty()) storage.sync_folder(root);
  return removed;
}

}  // namespace nqd::engine
