// The shared cases under mpirun: `mpi_cases RANKS [BACKEND [staged]]`, on mpi by default, staged
// with NQD_CROSS_MEMORY=off; with BACKEND file:PATH under any launcher. Exit code 0: every check of
// every rank passed.
#include "tests/cases/collectives_cases.h"
#include "tests/mpi/launched.h"

int main(int argc, char** argv) {
  using namespace nqd::collectives;
  if (argc < 2) return 2;
  const bool staged = argc > 3;
  const std::string backend = argc > 2 ? argv[2] : "mpi";
  return run_launched(std::stoi(argv[1]), backend, [&](Communicator& world) {
    CaseReport report = run_collectives_cases(world, !staged, !backend.starts_with("file:"));
    if (report.checks < 1000) report.failures.push_back("fewer checks than there are");
    return report.failures;
  });
}
