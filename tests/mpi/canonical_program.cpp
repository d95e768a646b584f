// Canonical sums under mpirun. Exit code 0: every sum of every rank had the bits of the reference.
#include <string>

#include "base/log.h"
#include "collectives/world.h"
#include "tests/cases/canonical_cases.h"

namespace {

int run(int expected_ranks, const std::string& backend) {
  using namespace nqd::collectives;
  int code = 0;
  run_world({.ranks = expected_ranks, .backend = backend}, [&](Communicator& world) {
    const CanonicalReport report = run_canonical_cases(world, 20'11, 1);
    for (const std::string& failure : report.failures) nqd::log::error(failure);
    if (world.backend() != backend || world.size() != expected_ranks || report.sums < 300 ||
        report.order_matters < 1000) {
      nqd::log::error("not the world, or not the sums, that were meant");
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
    if (argc >= 2) code = run(std::stoi(argv[1]), argc > 2 ? argv[2] : "mpi");
  } catch (const nqd::Error& error) {
    nqd::log::error(error.code() + " " + error.what());
    code = static_cast<int>(error.exit_code());
  }
  if (code != 0) nqd::collectives::abort_process(code);
  return 0;
}
