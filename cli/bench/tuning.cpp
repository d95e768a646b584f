#include "cli/bench/tuning.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/file.h"
#include "base/log.h"
#include "collectives/tuning.h"

namespace nqd::cli {
namespace {

using collectives::Communicator;
using collectives::TuningRow;

// One choice as it travels.
struct Choice {
  std::uint64_t from_bytes = 0;
  std::int32_t row = 0;
  std::int32_t ranks = 0;
  collectives::Collective collective{};
  collectives::Algorithm algorithm{};
  bool inside_node = false;
};

// What fits this world's backend and buffers. The reader of the file has checked the names.
std::vector<Choice> choices_of(const std::vector<planner::Crossovers>& crossovers,
                               std::string_view backend, bool registered) {
  std::vector<Choice> choices;
  std::int32_t row = 0;
  for (const planner::Crossovers& entry : crossovers) {
    if (entry.backend != backend || entry.registered != registered) continue;
    for (const planner::CrossoverChoice& choice : entry.choices) {
      // Far beyond any payload, and still a whole number that fits.
      const double from_bytes = std::min(choice.from_bytes, 0x1p62);
      choices.push_back({static_cast<std::uint64_t>(from_bytes), row,
                         static_cast<std::int32_t>(entry.ranks),
                         *collectives::parse_collective(entry.collective),
                         *collectives::parse_algorithm(choice.algorithm), entry.inside_node});
    }
    ++row;
  }
  return choices;
}

// Collective. Every rank ends with rank 0's.
void broadcast(Communicator& world, std::vector<Choice>& choices) {
  std::uint64_t count = choices.size();
  world.broadcast(std::as_writable_bytes(std::span(&count, 1)), 0);
  choices.resize(count);
  world.broadcast(std::as_writable_bytes(std::span(choices)), 0);
}

std::vector<TuningRow> rows_of(const std::vector<Choice>& choices, std::string_view backend,
                               bool registered) {
  std::vector<TuningRow> rows;
  for (const Choice& choice : choices) {
    if (static_cast<std::size_t>(choice.row) == rows.size()) {
      rows.push_back({choice.collective,
                      choice.ranks,
                      choice.inside_node,
                      std::string(backend),
                      registered,
                      {}});
    }
    rows.back().choices.push_back({choice.from_bytes, choice.algorithm});
  }
  return rows;
}

}  // namespace

bool is_calibration(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const std::string text = read_file(path);
  return text.starts_with("curves:") || text.find("\ncurves:") != std::string::npos;
}

void share_tuning(Communicator& world, const std::vector<planner::Crossovers>& crossovers,
                  const collectives::BenchOptions& options) {
  std::vector<Choice> choices = choices_of(crossovers, world.backend(), options.registered);
  broadcast(world, choices);
  const auto tuning = std::make_shared<const collectives::Tuning>(
      rows_of(choices, world.backend(), options.registered), world.backend(), options.registered);
  world.set_tuning(tuning);
  const bool inside_node = collectives::ranks_on_this_host(world) == world.size();
  const bool chosen =
      tuning->algorithm(options.collective, world.size(), inside_node, options.begin_bytes)
          .has_value();
  if (chosen || crossovers.empty() || world.rank() != 0) return;
  log::warn("the cluster file has no crossovers of " +
            std::string(collectives::name(options.collective)) + " on " +
            std::to_string(world.size()) + " ranks " +
            (inside_node ? "of one host" : "across hosts") + " (" + std::string(world.backend()) +
            (options.registered ? ", registered buffers" : ", private buffers") +
            "): auto is the default" +
            "\n  hint: measure them with `nqd bench ... --algorithm all`, and run `nqd calibrate`");
}

}  // namespace nqd::cli
