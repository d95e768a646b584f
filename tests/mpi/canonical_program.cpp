// Canonical sums under mpirun: `canonical_program RANKS [BACKEND]`. Exit code 0: every sum of every
// rank had the bits of the reference.
#include "tests/cases/canonical_cases.h"
#include "tests/mpi/launched.h"

int main(int argc, char** argv) {
  using namespace nqd::collectives;
  if (argc < 2) return 2;
  return run_launched(std::stoi(argv[1]), argc > 2 ? argv[2] : "mpi", [](Communicator& world) {
    CanonicalReport report = run_canonical_cases(world, 20'11, 1);
    if (report.sums < 300 || report.order_matters < 1000) {
      report.failures.push_back("not the sums that were meant");
    }
    return report.failures;
  });
}
