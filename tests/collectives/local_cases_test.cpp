// The shared cases on threads.
#include <doctest/doctest.h>

#include <mutex>

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

}  // namespace
}  // namespace nqd::collectives
