// The shared cases under mpirun: `mpi_cases RANKS [BACKEND [staged]]`, on mpi by default, staged
// with NQD_CROSS_MEMORY=off. Exit code 0: every check of every rank passed.
#include <string>

#include "base/log.h"
#include "collectives/world.h"
#include "tests/cases/collectives_cases.h"

namespace {

// The ranks that were expected, so that N worlds of one rank cannot pass for one of N.
int run(int expected_ranks, const std::string& backend, bool staged) {
  using namespace nqd::collectives;
  int code = 0;
  run_world({.ranks = expected_ranks, .backend = backend}, [&](Communicator& world) {
    const CaseReport report = run_collectives_cases(world, !staged);
    for (const std::string& failure : report.failures) nqd::log::error(failure);
    if (world.backend() != backend || world.size() != expected_ranks || report.checks < 1000) {
      nqd::log::error("not the world that was asked for");
      code = 1;
    }
    if (!report.failures.empty()) code = 1;
  });
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;
  try {
    if (argc >= 2) code = run(std::stoi(argv[1]), argc > 2 ? argv[2] : "mpi", argc > 3);
  } catch (const nqd::Error& error) {
    nqd::log::error(error.code() + " " + error.what());
    code = static_cast<int>(error.exit_code());
  }
  if (code != 0) nqd::collectives::abort_process(code);
  return 0;
}
