// What becomes of a step on streams whose peers are late, fail or are lost: nobody waits for ever.
#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "tests/engine/device/stream_run.h"

namespace nqd::tests {
namespace {

using namespace std::chrono_literals;
using planner::Engine;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Failures {
  Error first;           // of the run
  std::string survivor;  // code and message of rank 0
};

// Rank 1 of the mesh is disturbed before the second step.
template <typename Disturb>
Failures failures_of(const planner::ParallelSpec& spec, std::chrono::milliseconds deadline,
                     const Disturb& disturb) {
  const planner::Config config = fast_on_mesh(small_gpt(), spec);
  collectives::emulated::Device api(static_cast<int>(spec.ranks()));
  collectives::emulated::Nccl nccl;
  SmallRunOptions options = on_streams(api, nccl, config, deadline);
  options.before_step = [&](int rank, std::int64_t step) {
    if (rank == 1 && step == 2) disturb(nccl);
  };
  std::string survivor;
  options.on_failure = [&](int rank, const Error& error) {
    if (rank == 0) survivor = std::string(error.code()) + " " + error.what();
  };
  std::optional<Error> found;
  try {
    small_run(config, 2, options);
  } catch (const Error& error) {
    found = error;
  }
  REQUIRE(found);
  CHECK(found->exit_code() == ExitCode::kFault);
  CHECK(nccl.aborted() > 0);
  CHECK(nccl.live() == 0);
  CHECK(api.live() == 0);
  return {*found, survivor};
}

TEST_CASE("a rank that is late is named by those whose device waits for it") {
  for (const auto& spec :
       {mesh(Engine::kDdp, 2), mesh(Engine::kDdp, 1, 2), mesh(Engine::kDdp, 1, 1, 2)}) {
    INFO("dp ", spec.dp, ", tp ", spec.tp, ", pp ", spec.pp);
    const Failures failures =
        failures_of(spec, 150ms, [](auto&) { std::this_thread::sleep_for(700ms); });
    INFO(failures.survivor);
    CHECK(contains(failures.survivor, "NQD4002"));
    CHECK(contains(failures.survivor, "s, of rank 0 on host"));
    CHECK(contains(failures.survivor, "rank 1"));
  }
}

TEST_CASE("a rank that fails is named by those whose device waits for it") {
  for (const auto& spec : {mesh(Engine::kZero3, 2), mesh(Engine::kDdp, 1, 1, 2)}) {
    INFO("dp ", spec.dp, ", pp ", spec.pp);
    const auto start = std::chrono::steady_clock::now();
    const Failures failures = failures_of(
        spec, 60s, [](auto&) { throw Error(ExitCode::kFault, "NQD4003", "disk full"); });
    INFO(failures.survivor);
    CHECK(failures.first.code() == "NQD4003");
    CHECK(contains(failures.survivor, "NQD4001"));
    CHECK(contains(failures.survivor, "rank 1"));
    CHECK(contains(failures.survivor, "disk full"));
    CHECK(std::chrono::steady_clock::now() - start < 30s);
  }
}

TEST_CASE("an error that NCCL reports ends a step") {
  const Failures failures =
      failures_of(mesh(Engine::kDdp, 2), 60s, [](collectives::emulated::Nccl& nccl) {
        nccl.fail(1, collectives::NcclResult::kInvalidUsage);
      });
  CHECK(failures.first.code() == "NQD4012");
  CHECK(contains(failures.first.what(), "emulated result 5"));
  CHECK_FALSE(failures.survivor.empty());
}

}  // namespace
}  // namespace nqd::tests
