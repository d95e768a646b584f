#include "tests/mpi/launched.h"

#include <atomic>

#include "base/log.h"

namespace nqd::collectives {

int run_launched(int ranks, const std::string& backend,
                 const std::function<std::vector<std::string>(Communicator&)>& body) {
  std::atomic<int> code = 0;
  try {
    run_world({.ranks = ranks, .backend = backend}, [&](Communicator& world) {
      std::vector<std::string> failures = body(world);
      const bool as_asked = backend == "auto" || world.backend() == backend;
      if (!as_asked || world.size() != ranks) {
        failures.push_back("not the world that was asked for");
      }
      for (const std::string& failure : failures) log::error(failure);
      if (!failures.empty()) code = 1;
    });
  } catch (const Error& error) {
    log::error(error.code() + " " + error.what());
    code = static_cast<int>(error.exit_code());
  }
  if (code != 0) abort_process(code);
  return 0;
}

}  // namespace nqd::collectives
