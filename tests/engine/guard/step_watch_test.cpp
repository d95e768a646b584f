#include "engine/train/step_watch.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "tests/engine/guard/guarded_run.h"

using namespace nqd;

TEST_CASE("threads that compute for ever, all of them or one, are reported and ended") {
  testing::Scratch scratch;
  for (const int hung : {-1, 1}) {
    CAPTURE(hung);
    const std::string log = (scratch.folder() / "stderr").string();
    const planner::Config config = testing::tiny({planner::Engine::kDdp, 2});
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) ::_exit(1);
      testing::RunOptions options;
      options.seeded.hang_step = 5;
      options.seeded.hang_rank = hung;
      options.deadline_s = 0.5;
      testing::run(config, options);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 4);
    const std::string said = read_file(log);
    CAPTURE(said);
    CHECK(said.find(" did not complete step 5 within ") != std::string::npos);
    CHECK(said.find("NQD4002") == said.rfind("NQD4002"));
    if (hung == 1) CHECK(said.find("rank 1 did not complete") != std::string::npos);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    CHECK(took.count() > 3.5);
  }
}
