#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "base/codes.h"
#include "planner/mesh/layer_split.h"
#include "planner/planner.h"
#include "planner/search/search.h"
#include "tests/planner/search/search_configs.h"

namespace nqd::planner::search {
namespace {

std::vector<std::int64_t> split(std::int64_t layers, std::int64_t chunks) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < chunks; ++i) out.push_back(layers_of_chunk(layers, chunks, i));
  return out;
}

TEST_CASE("uneven layers are fewer at the ends") {
  // The Llama 3 Herd of Models: 126 layers on 16 stages.
  std::vector<std::int64_t> llama(16, 8);
  llama.front() = llama.back() = 7;
  CHECK(split(126, 16) == llama);
  CHECK(split(6, 3) == std::vector<std::int64_t>{2, 2, 2});
  CHECK(split(7, 4) == std::vector<std::int64_t>{2, 2, 2, 1});
  CHECK(split(5, 4) == std::vector<std::int64_t>{1, 2, 1, 1});
  for (std::int64_t layers = 1; layers <= 40; ++layers) {
    for (std::int64_t chunks = 1; chunks <= layers; ++chunks) {
      std::int64_t sum = 0;
      for (const std::int64_t part : split(layers, chunks)) sum += part;
      CHECK(sum == layers);
    }
  }
}

TEST_CASE("all factorings of the devices are proposed, each once") {
  const Space space(facts_of(small_config(2, 8)), {});
  // Ordered factorings of 2^4 into four: C(4+3, 3).
  CHECK(space.meshes().size() == 35);
  // Of 2^2·3: C(5,3)·C(4,3).
  CHECK(Space(facts_of(small_config(3, 4)), {}).meshes().size() == 40);
}

TEST_CASE("every rule has a code that is explained") {
  for (std::size_t i = 0; i < kRules; ++i) {
    CAPTURE(label(static_cast<Rule>(i)));
    CHECK(find_code(info(static_cast<Rule>(i)).code) != nullptr);
  }
}

TEST_CASE("a rejected candidate breaks the rule that it counts under, as check_mesh says") {
  const Config config = small_expert_config(2, 4);
  const Facts facts = facts_of(config);
  std::map<Rule, int> seen;
  Candidate c;
  for (c.tp = 1; c.tp <= 8; ++c.tp) {
    for (c.pp = 1; c.pp <= 8; c.pp *= 2) {
      for (c.ep = 1; c.ep <= 8; ++c.ep) {
        for (c.vpp = 1; c.vpp <= 3; ++c.vpp) {
          for (const Schedule schedule :
               {Schedule::k1F1B, Schedule::kInterleaved, Schedule::kZbV}) {
            for (const bool sequence_parallel : {false, true}) {
              c.schedule = schedule;
              c.sequence_parallel = sequence_parallel;
              c.dp = std::max(1, 8 / (c.tp * c.pp));
              c.micro_batches = 8 / c.dp;
              const std::optional<Rule> broken = first_violation(facts, c);
              if (!broken) continue;
              ++seen[*broken];
              const std::vector<Diagnostic> all = check_mesh(config_of(config, c));
              CHECK_MESSAGE(has_errors(all), label(*broken));
            }
          }
        }
      }
    }
  }
  CHECK(seen.size() >= 8);
}

TEST_CASE("fixed axes are kept, and what cannot hold them is counted") {
  const Config config = small_config(2, 4);
  SearchOptions options;
  read_fixed("tp=2,engine=zero1", options.fixed);
  const SearchResult result = search(config, options);
  CHECK(!result.found.best.empty());
  for (const Score& score : result.found.best) {
    CHECK(score.candidate.tp == 2);
    CHECK(score.candidate.engine == Engine::kZero1);
  }
  const auto only_rule = [&](const char* fixed, Rule rule) {
    SearchOptions asked;
    read_fixed(fixed, asked.fixed);
    const Found found = search(config, asked).found;
    CHECK(found.fitting == 0);
    CHECK(found.rejected[static_cast<std::size_t>(rule)] == found.considered);
  };
  only_rule("tp=3", Rule::kDevices);
  only_rule("tp=8", Rule::kTpDomain);
  only_rule("ep=2,tp=1,cp=1,pp=1", Rule::kExperts);
  only_rule("pp=1,vpp=2,tp=1,cp=1,engine=ddp", Rule::kSchedule);
  only_rule("pp=4,vpp=3,schedule=1f1b,tp=1,cp=1,engine=ddp", Rule::kSchedule);
  only_rule("tp=1,sequence_parallel=true,pp=1,cp=1,engine=ddp", Rule::kSequenceNoTp);
}

}  // namespace
}  // namespace nqd::planner::search
