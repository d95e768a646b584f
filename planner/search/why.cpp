#include "planner/search/why.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "base/units.h"
#include "planner/planner.h"
#include "planner/rules/legality.h"
#include "planner/text.h"

namespace nqd::planner::search {
namespace {

// How far apart two values of a key are: the ratio of numbers; words are all as far.
double distance(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  const double x = number(a);
  const double y = number(b);
  return x > 0 && y > 0 ? std::abs(std::log(x / y)) : 0;
}

// The value that `fixed` holds for a key.
std::string held_value(const Fixed& fixed, std::string_view key) {
  Fixed alone;
  for (const std::string_view other : held_keys(fixed)) {
    if (other == key) alone = fixed;
  }
  for (const std::string_view other : held_keys(alone)) {
    if (other != key) alone = without(alone, other);
  }
  const std::string text = text_of(alone);
  return text.substr(text.find('=') + 1);
}

// Values to try for a key that is no axis of the mesh but a number, nearest first.
std::vector<std::string> values_near(const Config& config, std::string_view key,
                                     const std::string& wanted) {
  const bool sizes = key == "micro_batch_size";
  if (!sizes && key != "vpp") return {};
  const std::int64_t batch = config.train.global_batch_size;
  const std::int64_t most = sizes ? batch : config.model.layers;
  std::vector<std::string> values;
  for (std::int64_t value = 1; value <= most; ++value) {
    if (!sizes || rules::divides(value, batch)) values.push_back(std::to_string(value));
  }
  std::stable_sort(values.begin(), values.end(), [&](const std::string& a, const std::string& b) {
    return distance(a, wanted) < distance(b, wanted);
  });
  return values;
}

std::optional<Change> nearest_change(const Config& config, SearchOptions options,
                                     const Fixed& asked, std::string_view key) {
  const std::string wanted = held_value(asked, key);
  const Fixed relaxed = combined(without(asked, key), options.fixed);
  for (const std::string& value : values_near(config, key, wanted)) {
    options.fixed = relaxed;
    read_fixed(std::string(key) + "=" + value, options.fixed);
    const std::vector<Score> best = search(config, options).found.best;
    if (!best.empty()) return Change{std::string(key), value, best.front()};
  }
  options.fixed = relaxed;
  std::optional<Change> nearest;
  for (const Score& score : search(config, options).found.best) {
    Change change{std::string(key), value_of(score.candidate, key), score};
    if (!nearest || distance(change.value, wanted) < distance(nearest->value, wanted)) {
      nearest = std::move(change);
    }
  }
  return nearest;
}

// The words of check_mesh for a candidate that breaks a rule; where dp is free, what no dp mends.
std::string reason_of(const Config& config, Rule rule, const Candidate& example,
                      const Fixed& asked) {
  const bool devices = rule == Rule::kDevices;
  if (devices && !asked.dp) {
    const std::int64_t replica = std::int64_t{example.tp} * example.cp * example.pp;
    return "no dp uses every device: tp·cp·pp = " + std::to_string(example.tp) + "·" +
           std::to_string(example.cp) + "·" + std::to_string(example.pp) + " = " +
           std::to_string(replica) + " does not divide " + std::to_string(config.cluster.devices());
  }
  Config planned = devices ? with_candidate(config, example) : config_of(config, example);
  // with_candidate follows the candidate where it is what is judged.
  if (devices) planned.parallel.world_size.reset();
  planned.train.global_batch_size = config.train.global_batch_size;
  for (const Diagnostic& diagnostic : check_mesh(planned)) {
    if (diagnostic.code == info(rule).code) return diagnostic.message;
  }
  return std::string(info(rule).title);
}

void explain_rejection(const Config& config, const SearchOptions& options, const Fixed& asked,
                       const Found& found, Why& why) {
  constexpr auto kMemory = static_cast<std::size_t>(Rule::kMemory);
  std::size_t most = kMemory;
  if (found.rejected[kMemory] == 0) {
    most = static_cast<std::size_t>(std::max_element(found.rejected.begin(), found.rejected.end()) -
                                    found.rejected.begin());
  }
  SearchOptions by_mesh = options;
  by_mesh.one_a_mesh = true;
  why.rule = static_cast<Rule>(most);
  why.nearest = found.nearest;
  why.reason = most != kMemory ? reason_of(config, *why.rule, *found.examples[most], asked)
                               : "at best it needs " + format_bytes(found.nearest->bytes) + ", " +
                                     format_bytes(found.nearest->bytes - why.limit_bytes) +
                                     " more than the limit of " + format_bytes(why.limit_bytes);
  for (const std::string_view key : held_keys(asked)) {
    if (auto change = nearest_change(config, by_mesh, asked, key)) {
      why.changes.push_back(*std::move(change));
    }
  }
}

// "+12.3 %" of 1.123.
std::string more(double ratio) { return (ratio >= 1 ? "+" : "-") + percent(std::abs(ratio - 1)); }

std::string slower_text(const StepTime& plan, const StepTime& best) {
  const std::array<std::pair<const char*, double>, 5> parts = {
      {{"compute", plan.compute_s - best.compute_s},
       {"exposed communication", plan.exposed_s - best.exposed_s},
       {"the bubble", plan.bubble_s - best.bubble_s},
       {"the optimizer", plan.optimizer_s - best.optimizer_s},
       {"stragglers", plan.jitter_s - best.jitter_s}}};
  const auto& largest = *std::max_element(
      parts.begin(), parts.end(),
      [](const auto& a, const auto& b) { return std::abs(a.second) < std::abs(b.second); });
  return format_seconds(plan.step_s) + " against " + format_seconds(best.step_s) + " (" +
         more(plan.step_s / best.step_s) + "), of which " + largest.first + " is " +
         (largest.second < 0 ? "-" : "+") + format_seconds(std::abs(largest.second));
}

std::string larger_text(const StageMemory& plan, const StageMemory& best) {
  std::map<std::string, double> differences = plan.categories;
  for (const auto& [category, bytes] : best.categories) differences[category] -= bytes;
  const auto largest = std::max_element(
      differences.begin(), differences.end(),
      [](const auto& a, const auto& b) { return std::abs(a.second) < std::abs(b.second); });
  return format_bytes(plan.total_bytes) + " against " + format_bytes(best.total_bytes) + " (" +
         more(plan.total_bytes / best.total_bytes) + "), of which " + largest->first + " is " +
         (largest->second < 0 ? "-" : "+") + format_bytes(std::abs(largest->second));
}

std::string choices_text(const Candidate& c) {
  return mesh_text(c) + ", " + std::string(name(c.engine)) + ", " + std::string(name(c.schedule)) +
         ", micro-batch " + std::to_string(c.micro_batch_size) + " x " +
         std::to_string(c.micro_batches) + ", recompute " + std::string(name(c.recompute)) +
         (c.sequence_parallel ? ", sequence parallel" : "");
}

std::string place_text(const Why& why) {
  std::string text = "rank " + format_count(static_cast<std::uint64_t>(why.rank)) + " of " +
                     format_count(static_cast<std::uint64_t>(why.fitting)) + " that fit\n" +
                     "  the best of them   " + choices_text(why.plan->score.candidate) + "\n";
  if (why.rank == 1) return text;
  text += "  the best of all    " + choices_text(why.best->score.candidate) + "\n";
  if (why.plan->time.known && why.best->time.known) {
    text += "  step               " + slower_text(why.plan->time, why.best->time) + "\n";
  }
  return text + "  memory of a rank   " + larger_text(why.plan->worst, why.best->worst) + "\n";
}

}  // namespace

Why explain_plan(const Config& config, const SearchOptions& options, const Fixed& asked) {
  SearchOptions narrow = options;
  narrow.fixed = combined(asked, options.fixed);
  narrow.one_a_mesh = false;
  narrow.keep = 1;
  const SearchResult those = search(config, narrow);
  Why why;
  why.asked = text_of(asked);
  why.limit_bytes = those.limit_bytes;
  if (those.found.best.empty()) {
    explain_rejection(config, options, asked, those.found, why);
    return why;
  }
  SearchOptions wide = options;
  wide.one_a_mesh = false;
  wide.keep = 1;
  wide.asked = those.found.best;
  const SearchResult all = search(config, wide);
  why.rank = 1 + all.found.better_than.front();
  why.fitting = all.found.fitting;
  why.plan = detail_of(config, those.found.best.front(), those.limit_bytes, true);
  why.best = detail_of(config, all.found.best.front(), those.limit_bytes, true);
  return why;
}

std::string why_text(const Why& why) {
  if (why.plan) return "  why " + why.asked + ": " + place_text(why);
  std::string text =
      "  why " + why.asked + ": rejected, " + label(*why.rule) + ": " + why.reason + "\n";
  if (why.nearest) text += "  the nearest        " + choices_text(why.nearest->candidate) + "\n";
  for (const Change& change : why.changes) {
    text += "  " + change.key + "=" + change.value +
            " instead would fit: " + choices_text(change.score.candidate) + ", " +
            format_bytes(change.score.bytes);
    if (change.score.step_s > 0) text += ", step " + format_seconds(change.score.step_s);
    text += "\n";
  }
  if (why.changes.empty()) text += "  no other value of one of these keys alone would fit\n";
  return text;
}

}  // namespace nqd::planner::search
