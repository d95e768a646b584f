// The unit store under mpirun. Exit code 0: gradients, memory and traffic of every case were right.
#include <string>

#include "base/log.h"
#include "collectives/world.h"
#include "tests/cases/store_cases.h"

namespace {

void run(int expected_ranks, const std::string& backend) {
  using namespace nqd;
  collectives::run_world({.ranks = expected_ranks, .backend = backend}, [&](collectives::
                                                                                Communicator&
                                                                                    world) {
    int cases = 0;
    for (const auto numerics : {collectives::Numerics::kCanonical, collectives::Numerics::kFast}) {
      for (const toy::Case& one : toy::all_cases(numerics)) {
        if (one.dp != expected_ranks) continue;
        toy::check_case(world, one);
        ++cases;
      }
    }
    toy::expect(world.backend() == backend && cases >= 32, {}, "not the world that was meant");
  });
}

}  // namespace

int main(int argc, char** argv) {
  int code = 2;
  try {
    if (argc >= 2) {
      run(std::stoi(argv[1]), argc > 2 ? argv[2] : "mpi");
      code = 0;
    }
  } catch (const nqd::Error& error) {
    nqd::log::error(error.code() + " " + error.what());
    code = static_cast<int>(error.exit_code());
  }
  if (code != 0) nqd::collectives::abort_process(code);
  return 0;
}
