#include "planner/plan/gradient_choice.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "collectives/cost.h"
#include "collectives/cost_scratch.h"
#include "collectives/numerics.h"
#include "planner/layout/buckets.h"
#include "planner/mesh/fabric.h"
#include "planner/mesh/stages.h"
#include "planner/plan/communication.h"
#include "planner/reference/reference_plan.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

// Where the gradients are summed.
struct Place {
  std::int64_t ranks = 1;
  bool inside_node = true;
  bool shared = true;        // among ranks that reach each other's buffers
  std::string_view backend;  // empty = not known yet
};

std::string describe(const Place& place) {
  return std::to_string(place.ranks) + " ranks " +
         (place.inside_node ? "of one host" : "across hosts") +
         (place.shared ? ", registered buffers" : ", private buffers") +
         (place.backend.empty() ? "" : ", " + std::string(place.backend));
}

const Crossovers* crossovers_of(const ClusterSpec& cluster, const Place& place) {
  const Crossovers* found = nullptr;
  for (const Crossovers& row : cluster.crossovers) {
    const bool fits = row.collective == name(Collective::kAllReduce) && row.ranks == place.ranks &&
                      row.inside_node == place.inside_node && row.registered == place.shared &&
                      (place.backend.empty() || row.backend == place.backend) &&
                      !row.choices.empty();
    if (fits && (found == nullptr || row.backend == "mpi")) found = &row;
  }
  return found;
}

double largest_bucket_bytes(const Config& config) {
  std::int64_t count = 0;
  for (const BucketRun& run : stage_buckets(config, stage_layouts(config).front())) {
    count = std::max(count, run.count);
  }
  return static_cast<double>(count * gradient_bytes(config.train));
}

// As collectives::Tuning chooses.
std::string choice_at(const Crossovers& row, double bytes) {
  std::string chosen = row.choices.front().algorithm;
  for (const CrossoverChoice& choice : row.choices) {
    if (choice.from_bytes <= bytes) chosen = choice.algorithm;
  }
  return chosen;
}

// Hierarchical needs what depends on the hosts, which a plan does not know.
bool trainer_runs(Algorithm algorithm) {
  return algorithm != Algorithm::kAuto && algorithm != Algorithm::kLibrary &&
         algorithm != Algorithm::kHierarchical &&
         collectives::is_executable(Collective::kAllReduce, algorithm);
}

// Whether all ranks need equal buffers for each gradient bucket.
bool same_scratch(const Config& config, Algorithm algorithm) {
  const auto ranks = static_cast<std::size_t>(config.parallel.dp);
  for (const BucketRun& run : stage_buckets(config, stage_layouts(config).front())) {
    const auto of_rank = [&](std::size_t rank) {
      return collectives::scratch_bytes(Collective::kAllReduce, algorithm, ranks, rank,
                                        static_cast<std::size_t>(run.count), sizeof(float));
    };
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      if (of_rank(rank) != of_rank(0)) return false;
    }
  }
  return true;
}

// Why the trainer does not run it; empty if it does.
std::string objection(const Config& config, const Place& place, Algorithm algorithm) {
  const auto ranks = static_cast<std::size_t>(place.ranks);
  if (algorithm == Algorithm::kDirect && !place.shared) {
    return "its ranks do not share memory";
  }
  if (!trainer_runs(algorithm)) return "the trainer does not run it";
  if (!same_scratch(config, algorithm)) {
    return "the buffers that it needs differ from rank to rank";
  }
  const bool keeps =
      collectives::is_canonical(Collective::kAllReduce, algorithm, ranks, DType::kFloat32);
  if (config.numerics.mode == collectives::Numerics::kCanonical && !keeps) {
    return "it does not add in the order of numerics: canonical";
  }
  return {};
}

Diagnostic note(Severity severity, std::string message, std::string hint) {
  Diagnostic diagnostic;
  diagnostic.code = "NQD1309";
  diagnostic.severity = severity;
  diagnostic.path = "cluster";
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  return diagnostic;
}

void apply_crossovers(const Config& config, Place place, GradientChoice& choice) {
  const Crossovers* const row = crossovers_of(config.cluster, place);
  const std::string stays =
      ": gradients are summed by " + std::string(name(choice.algorithm)) + ", the default";
  if (row == nullptr) {
    choice.note =
        note(Severity::kWarning,
             "the cluster file has no crossovers of all_reduce on " + describe(place) + stays,
             std::string("measure them with `nqd bench all_reduce --algorithm all") +
                 (place.shared ? " -R" : "") + "`, and run `nqd calibrate`");
    return;
  }
  place.backend = row->backend;
  const double bytes = largest_bucket_bytes(config);
  const std::string chosen = choice_at(*row, bytes);
  const Algorithm algorithm = collectives::parse_algorithm(chosen).value_or(Algorithm::kAuto);
  const std::string measured = "the measured crossovers of " + describe(place) + " name " + chosen +
                               " for gradient buckets of " + format_bytes(bytes);
  const std::string refused = objection(config, place, algorithm);
  if (!refused.empty()) {
    choice.note = note(Severity::kWarning, measured + ", but " + refused + stays,
                       "`nqd bench all_reduce --algorithm direct,ring` compares what the trainer "
                       "runs in any case");
    return;
  }
  choice.algorithm = algorithm;
  choice.tuned = true;
  choice.note = note(Severity::kNote, measured + ": they are followed", "");
}

}  // namespace

GradientChoice choose_gradient_algorithm(const Config& config, std::string_view backend) {
  GradientChoice choice;
  // Other engines have no buckets, and partial sums that do not fit one vector a rank are
  // exchanged.
  const bool even = config.numerics.mode == collectives::Numerics::kFast ||
                    std::has_single_bit(static_cast<std::uint64_t>(config.micro_batches()));
  if (!runs_on_reference_engine(config) || config.parallel.engine != Engine::kDdp || !even) {
    return choice;
  }
  const Group dp = dp_group(config.parallel);
  Place place;
  place.backend = backend;
  place.ranks = dp.size;
  place.inside_node = inside_node(config.cluster, dp);
  place.shared = place.inside_node && config.cluster.ranks_share_memory;
  if (place.shared) choice.algorithm = Algorithm::kDirect;
  if (place.ranks > 1 && !config.cluster.crossovers.empty()) {
    apply_crossovers(config, place, choice);
  }
  return choice;
}

}  // namespace nqd::planner
