#include "planner/search/search_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/units.h"
#include "planner/search/table.h"
#include "planner/text.h"

namespace nqd::planner::search {
namespace {

std::string counted(std::int64_t count) { return format_count(static_cast<std::uint64_t>(count)); }

std::string seconds(double value) { return value > 0 ? format_seconds(value) : "-"; }

std::string head_text(const Config& config, const SearchResult& result) {
  const Found& found = result.found;
  const std::string& preset = config.model.preset;
  const ClusterSpec& cluster = config.cluster;
  std::string text = config.source + "\n  " + (preset.empty() ? config.model.family : preset) +
                     " on " + counted(cluster.nodes) + " x " + counted(cluster.gpus_per_node) +
                     " = " + counted(cluster.devices()) + " devices" +
                     (cluster.preset.empty() ? "" : " (" + cluster.preset + ")") +
                     ", global batch " + counted(config.train.global_batch_size);
  if (result.limit_bytes > 0) text += ", at most " + format_bytes(result.limit_bytes) + " a rank";
  text += "\n  " + counted(found.considered) + " plans considered, " + counted(found.evaluated) +
          " evaluated in " + format_seconds(result.elapsed_s) + ", " + counted(found.fitting) +
          " fit; best " + std::string(name(result.objective)) + " first\n";
  if (!result.time_known() && found.fitting > 0) {
    text += "  a rate of the cluster is unknown, and with it every step time: bytes decide\n";
  }
  return text;
}

using Cells = std::vector<std::string>;

constexpr std::array<const char*, 6> kChoices = {"plan",        "engine",    "schedule",
                                                 "micro-batch", "recompute", "sp"};

Cells choices(const Candidate& c) {
  return {mesh_text(c),
          std::string(name(c.engine)),
          std::string(name(c.schedule)),
          std::to_string(c.micro_batch_size) + " x " + std::to_string(c.micro_batches),
          std::string(name(c.recompute)),
          c.sequence_parallel ? "yes" : "no"};
}

// Tokens, of models of pictures without a sequence samples.
Cells result_titles(bool tokens) {
  return {"step", tokens ? "tokens/s" : "samples/s", "MFU", "a rank"};
}

Cells results(const Detail& plan) {
  const double rate = plan.tokens_per_s > 0 ? plan.tokens_per_s : plan.samples_per_s;
  return {seconds(plan.time.step_s), rate > 0 ? counted(std::llround(rate)) : "-",
          plan.mfu > 0 ? percent(plan.mfu) : "-", format_bytes_binary(plan.worst.total_bytes)};
}

template <typename List>
void append(const List& more, Cells& row) {
  row.insert(row.end(), more.begin(), more.end());
}

std::string ranks_text(const std::vector<Detail>& plans) {
  Cells titles = {"rank"};
  append(kChoices, titles);
  append(result_titles(plans.front().tokens_per_s > 0), titles);
  titles.emplace_back("simulated");
  Table table(titles);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Detail& plan = plans[i];
    Cells row = {std::to_string(i + 1)};
    append(choices(plan.score.candidate), row);
    append(results(plan), row);
    row.push_back(plan.simulated_step_s ? seconds(*plan.simulated_step_s) : "-");
    table.add(std::move(row));
  }
  return table.text();
}

std::string parts_text(const std::vector<Detail>& plans) {
  constexpr std::array<std::pair<const char*, CommGroup>, kCommGroups> kGroups = {
      {{"dp", CommGroup::kDp},
       {"tp", CommGroup::kTp},
       {"cp", CommGroup::kCp},
       {"ep", CommGroup::kEp},
       {"pp", CommGroup::kPp},
       {"embedding", CommGroup::kEmbedding}}};
  Cells titles = {"seconds", "compute", "bubble", "optimizer", "stragglers"};
  for (const auto& [title, group] : kGroups) titles.push_back(std::string(title) + " exposed");
  Table table(titles);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const StepTime& time = plans[i].time;
    if (!time.known) continue;
    Cells row = {std::to_string(i + 1), seconds(time.compute_s), seconds(time.bubble_s),
                 seconds(time.optimizer_s), seconds(time.jitter_s)};
    for (const auto& [title, group] : kGroups) {
      row.push_back(seconds(time.groups[static_cast<std::size_t>(group)].exposed_s));
    }
    table.add(std::move(row));
  }
  return table.empty() ? std::string() : table.text();
}

std::string bytes_text(const std::vector<Detail>& plans) {
  std::set<std::string> categories;
  for (const Detail& plan : plans) {
    for (const auto& [category, bytes] : plan.worst.categories) categories.insert(category);
  }
  Cells titles = {"bytes", "stage"};
  titles.insert(titles.end(), categories.begin(), categories.end());
  Table table(titles);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const StageMemory& worst = plans[i].worst;
    Cells row = {std::to_string(i + 1), std::to_string(worst.stage)};
    for (const std::string& category : categories) {
      const auto found = worst.categories.find(category);
      row.push_back(found == worst.categories.end() ? "-" : format_bytes_binary(found->second));
    }
    table.add(std::move(row));
  }
  return table.text();
}

std::string rejected_text(const Found& found) {
  std::vector<std::size_t> rules;
  for (std::size_t i = 0; i < kRules; ++i) {
    if (found.rejected[i] > 0) rules.push_back(i);
  }
  std::stable_sort(rules.begin(), rules.end(), [&](std::size_t a, std::size_t b) {
    return found.rejected[a] > found.rejected[b];
  });
  if (rules.empty()) return {};
  Table table({"rejected", "plans", "why"});
  for (const std::size_t i : rules) {
    const auto rule = static_cast<Rule>(i);
    table.add({label(rule), counted(found.rejected[i]), std::string(info(rule).title)});
  }
  return "\n" + table.text();
}

}  // namespace

std::string search_text(const Config& config, const SearchResult& result,
                        const std::vector<Detail>& plans) {
  std::string text = head_text(config, result);
  if (plans.empty()) {
    text += "\n  " + nothing_text(result) + "\n";
  } else {
    text += "\n" + ranks_text(plans) + "\n";
    const std::string parts = parts_text(plans);
    if (!parts.empty()) text += parts + "\n";
    text += bytes_text(plans) + "\n  binds    " + binding_text(plans.front()) + "\n";
  }
  return text + rejected_text(result.found);
}

std::string front_text(const SearchResult& result) {
  Cells titles = {"step", "a rank", "devices"};
  append(kChoices, titles);
  Table table(titles);
  for (const Score& score : result.found.front.sorted()) {
    Cells row = {seconds(score.step_s), format_bytes_binary(score.bytes), counted(score.gpus())};
    append(choices(score.candidate), row);
    table.add(std::move(row));
  }
  return table.empty() ? std::string() : table.text();
}

std::string sweep_text(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points) {
  Cells titles;
  for (const SweepAxis& axis : axes) titles.push_back(axis.name);
  titles.emplace_back("fit");
  append(kChoices, titles);
  append(result_titles(points.front().config.model.sequence > 0), titles);
  Table table(titles);
  for (const SweepPoint& point : points) {
    Cells row = point.values;
    row.push_back(counted(point.result.found.fitting));
    if (point.plans.empty()) {
      row.push_back(nothing_text(point.result));
    } else {
      append(choices(point.plans.front().score.candidate), row);
      append(results(point.plans.front()), row);
    }
    table.add(std::move(row));
  }
  return table.text();
}

std::string nothing_text(const SearchResult& result) {
  const Found& found = result.found;
  if (found.nearest) {
    return "nothing fits: the nearest, " + mesh_text(found.nearest->candidate) + " " +
           std::string(name(found.nearest->candidate.engine)) + " with recompute " +
           std::string(name(found.nearest->candidate.recompute)) + ", needs " +
           format_bytes(found.nearest->bytes) + ", " +
           format_bytes(found.nearest->bytes - result.limit_bytes) + " more than the limit";
  }
  const auto most = static_cast<std::size_t>(
      std::max_element(found.rejected.begin(), found.rejected.end()) - found.rejected.begin());
  const auto rule = static_cast<Rule>(most);
  return "nothing is legal: " + label(rule) + " rejects " + counted(found.rejected[most]) + " of " +
         counted(found.considered) + " plans: " + std::string(info(rule).title);
}

}  // namespace nqd::planner::search
