// The search against trying everything: legality by check_mesh, bests and fronts by comparing all.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "planner/planner.h"
#include "planner/search/detail.h"
#include "planner/search/search.h"
#include "tests/planner/search/search_configs.h"

namespace nqd::planner::search {
namespace {

// Every combination of every value, in no particular order, that check_mesh accepts.
std::vector<Candidate> legal_candidates(const Config& config) {
  std::vector<Candidate> legal;
  const auto devices = static_cast<std::int32_t>(config.cluster.devices());
  const auto batch = static_cast<std::int32_t>(config.train.global_batch_size);
  const auto experts =
      static_cast<std::int32_t>(std::max<std::int64_t>(config.model.moe.experts, 1));
  const auto try_variants = [&](Candidate c) {
    for (int schedule = 0; schedule <= static_cast<int>(Schedule::kZbV); ++schedule) {
      c.schedule = static_cast<Schedule>(schedule);
      // All schedules of one stage are the same.
      if (c.pp == 1 && c.schedule != Schedule::k1F1B) continue;
      for (int engine = 0; engine <= static_cast<int>(Engine::kHsdp); ++engine) {
        c.engine = static_cast<Engine>(engine);
        for (int recompute = 0; recompute <= static_cast<int>(Recompute::kFull); ++recompute) {
          c.recompute = static_cast<Recompute>(recompute);
          // Of an unknown shape nothing can be recomputed.
          if (config.model.family == "state" && recompute > 0) continue;
          for (const bool sequence_parallel : {false, true}) {
            c.sequence_parallel = sequence_parallel;
            if (!has_errors(check_mesh(config_of(config, c)))) legal.push_back(c);
          }
        }
      }
    }
  };
  Candidate c;
  for (c.tp = 1; c.tp <= devices; ++c.tp) {
    for (c.pp = 1; c.tp * c.pp <= devices; ++c.pp) {
      for (c.cp = 1; c.tp * c.pp * c.cp <= devices; ++c.cp) {
        c.dp = devices / (c.tp * c.pp * c.cp);
        if (c.dp * c.tp * c.pp * c.cp != devices) continue;
        for (c.ep = 1; c.ep <= experts; ++c.ep) {
          for (c.micro_batch_size = 1; c.micro_batch_size * c.dp <= batch; ++c.micro_batch_size) {
            if (batch % (c.micro_batch_size * c.dp) != 0) continue;
            c.micro_batches = batch / (c.micro_batch_size * c.dp);
            for (c.vpp = 1; c.vpp == 1 || c.pp * c.vpp <= config.model.layers; ++c.vpp) {
              try_variants(c);
            }
          }
        }
      }
    }
  }
  return legal;
}

struct Tried {
  std::vector<Score> fitting;  // in order
  std::int64_t legal = 0;
};

Tried try_all(const Config& config, const SearchOptions& options) {
  Tried tried;
  MemoryModel memory(config);
  TimeModel time(config);
  for (const Candidate& candidate : legal_candidates(config)) {
    ++tried.legal;
    const double bytes = memory.worst(candidate).total_bytes;
    if (options.limit_bytes > 0 && bytes > options.limit_bytes) continue;
    tried.fitting.push_back({candidate, time.step(candidate).step_s, bytes});
  }
  std::sort(tried.fitting.begin(), tried.fitting.end(),
            [&](const Score& a, const Score& b) { return better(options.objective, a, b); });
  return tried;
}

std::vector<Score> best_of_meshes(const std::vector<Score>& ordered) {
  std::vector<Score> best;
  for (const Score& score : ordered) {
    const Candidate& c = score.candidate;
    const bool seen = std::any_of(best.begin(), best.end(), [&](const Score& other) {
      const Candidate& o = other.candidate;
      return std::tie(o.dp, o.tp, o.pp, o.cp, o.ep) == std::tie(c.dp, c.tp, c.pp, c.cp, c.ep);
    });
    if (!seen) best.push_back(score);
  }
  return best;
}

bool dominates(const Score& a, const Score& b) {
  return a.step_s <= b.step_s && a.bytes <= b.bytes && a.gpus() <= b.gpus() &&
         (a.step_s < b.step_s || a.bytes < b.bytes || a.gpus() < b.gpus());
}

void check_same(const std::vector<Score>& expected, const std::vector<Score>& got) {
  REQUIRE(expected.size() == got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(expected[i].candidate == got[i].candidate);
    CHECK(expected[i].step_s == got[i].step_s);
    CHECK(expected[i].bytes == got[i].bytes);
  }
}

// Points of all, each once.
std::map<std::pair<double, double>, int> front_of(const std::vector<Score>& all) {
  std::map<std::pair<double, double>, int> front;
  for (const Score& score : all) {
    const bool beaten = std::any_of(all.begin(), all.end(),
                                    [&](const Score& other) { return dominates(other, score); });
    if (!beaten) front[{score.step_s, score.bytes}] = 1;
  }
  return front;
}

void check_against_brute_force(const Config& config, const SearchOptions& options) {
  const Tried tried = try_all(config, options);
  const SearchResult result = search(config, options);
  const Found& found = result.found;
  check_same(best_of_meshes(tried.fitting), found.best);
  CHECK(found.fitting == static_cast<std::int64_t>(tried.fitting.size()));
  const std::int64_t rejected =
      std::accumulate(found.rejected.begin(), found.rejected.end(), std::int64_t{0});
  CHECK(found.considered == found.fitting + rejected);
  const auto memory = static_cast<std::size_t>(Rule::kMemory);
  CHECK(found.rejected[memory] == tried.legal - found.fitting);
  std::map<std::pair<double, double>, int> front;
  for (const Score& score : found.front.sorted()) ++front[{score.step_s, score.bytes}];
  CHECK(front == front_of(tried.fitting));
}

// A limit that about half of the legal plans meet.
double median_bytes(const Config& config) {
  std::vector<Score> all = try_all(config, {}).fitting;
  std::sort(all.begin(), all.end(),
            [](const Score& a, const Score& b) { return a.bytes < b.bytes; });
  return all[all.size() / 2].bytes;
}

TEST_CASE("search equals brute force on eight devices, by every objective") {
  const Config config = small_config(2, 4);
  const double limit = median_bytes(config);
  for (const Objective objective : {Objective::kStepTime, Objective::kMemory, Objective::kCost}) {
    SearchOptions options;
    options.objective = objective;
    options.limit_bytes = limit;
    check_against_brute_force(config, options);
  }
}

TEST_CASE("search equals brute force with experts") {
  const Config config = small_expert_config(1, 8);
  SearchOptions options;
  options.limit_bytes = median_bytes(config);
  check_against_brute_force(config, options);
}

TEST_CASE("search equals brute force for every runtime, beside offloading and groups of layers") {
  for (const Runtime runtime :
       {Runtime::kNqd, Runtime::kMegatron, Runtime::kDeepSpeed, Runtime::kFsdp2}) {
    CAPTURE(name(runtime));
    Config config = small_config(1, 4);
    config.train.global_batch_size = 12;
    config.train.runtime = runtime;
    config.train.recompute_every = runtime == Runtime::kMegatron ? 3 : 1;
    config.train.optimizer.offload = runtime == Runtime::kDeepSpeed;
    SearchOptions options;
    options.limit_bytes = median_bytes(config);
    check_against_brute_force(config, options);
  }
}

TEST_CASE("search equals brute force for a model of which only the parameters are known") {
  Config config = small_config(2, 4);
  config.model = ModelSpec();
  config.model.family = "state";
  config.model.parameters = 1e9;
  SearchOptions options;
  options.limit_bytes = median_bytes(config);
  options.objective = Objective::kMemory;
  check_against_brute_force(config, options);
}

TEST_CASE("every accepted plan passes check_mesh, uneven stages included") {
  const Config config = small_config(1, 4);
  SearchOptions options;
  options.one_a_mesh = false;
  options.keep = 100'000;
  const SearchResult result = search(config, options);
  CHECK(static_cast<std::int64_t>(result.found.best.size()) == result.found.fitting);
  std::int64_t uneven = 0;
  for (const Score& score : result.found.best) {
    const Config planned = config_of(config, score.candidate);
    for (const Diagnostic& diagnostic : check_mesh(planned)) {
      CHECK_MESSAGE(diagnostic.severity != Severity::kError, diagnostic.message);
    }
    uneven += planned.parallel.pipeline_split.empty() ? 0 : 1;
    // The models say the same of the plan's own config.
    if (score.candidate.micro_batch_size > 1) continue;
    const Detail detail = detail_of(config, score, 0, false);
    CHECK(detail.time.step_s == score.step_s);
    CHECK(detail.worst.total_bytes == score.bytes);
  }
  CHECK(uneven > 0);
}

TEST_CASE("the result depends on neither threads nor pruning") {
  const Config config = small_config(2, 4);
  SearchOptions options;
  options.limit_bytes = median_bytes(config);
  options.threads = 1;
  const SearchResult one = search(config, options);
  options.threads = 5;
  const SearchResult five = search(config, options);
  options.prune = false;
  const SearchResult whole = search(config, options);
  for (const SearchResult* other : {&five, &whole}) {
    check_same(one.found.best, other->found.best);
    check_same(one.found.front.sorted(), other->found.front.sorted());
    CHECK(one.found.rejected == other->found.rejected);
    CHECK(one.found.considered == other->found.considered);
  }
  CHECK(one.found.evaluated == five.found.evaluated);
  CHECK(one.found.evaluated < whole.found.evaluated);
}

TEST_CASE("nothing fits is a result that names the nearest plan") {
  const Config config = small_config(1, 4);
  SearchOptions options;
  options.limit_bytes = 1e3;
  const SearchResult result = search(config, options);
  CHECK(result.found.best.empty());
  REQUIRE(result.found.nearest);
  MemoryModel memory(config);
  double fewest = 1e300;
  for (const Candidate& candidate : legal_candidates(config)) {
    fewest = std::min(fewest, memory.worst(candidate).total_bytes);
  }
  CHECK(result.found.nearest->bytes == fewest);
}

}  // namespace
}  // namespace nqd::planner::search
