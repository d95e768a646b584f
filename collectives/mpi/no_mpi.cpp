#include "collectives/mpi/mpi.h"

namespace nqd::collectives::mpi {

bool is_available() { return false; }
std::string detail() { return "built with NQD_WITH_MPI=OFF"; }

void run(const WorldOptions&, const LaunchIdentity&, const std::function<void(Communicator&)>&) {
  throw Error(ExitCode::kEnvironment, "NQD3003", "this build has no MPI",
              "build with -DNQD_WITH_MPI=ON");
}

}  // namespace nqd::collectives::mpi
