// The shared cases on threads.
#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <stdexcept>

#include "collectives/world.h"
#include "tests/cases/collectives_cases.h"

namespace nqd::collectives {
namespace {

TEST_CASE("every case on 1 to 8 threads") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    CAPTURE(ranks);
    std::mutex mutex;
    std::vector<CaseReport> reports;
    run_threads(ranks, {}, [&](Communicator& world) {
      CaseReport report = run_collectives_cases(world);
      const std::lock_guard lock(mutex);
      reports.push_back(std::move(report));
    });
    REQUIRE(reports.size() == static_cast<std::size_t>(ranks));
    for (const CaseReport& report : reports) {
      CHECK(report.checks > 1000);
      for (const std::string& failure : report.failures) FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("many receives at once: no wake-up is lost while one of them is copied") {
  // A split gathers from every rank in one wait.
  run_threads(8, {.ranks = {}, .deadline = std::chrono::seconds(10)}, [](Communicator& world) {
    for (int i = 0; i < 300; ++i) {
      const auto part = world.split(world.rank() % 3, -world.rank(), "part");
      if (part->size() != (world.rank() % 3 == 2 ? 2 : 3)) throw std::logic_error("wrong members");
    }
  });
}

}  // namespace
}  // namespace nqd::collectives
