#include "tests/mpi/launched.h"

#include <atomic>

#include "base/log.h"

namespace nqd::collectives {

int run_launched(int ranks, const std::string& backend,
                 const std::function<std::vector<std::string>(Communicator&)>& body) {
  std::atomic<int> code = 0;
  const bool by_file = backend.starts_with("file:");
  try {
    WorldOptions options{.ranks = ranks, .backend = by_file ? "shm" : backend};
    if (by_file) options.rendezvous = backend;
    run_world(options, [&](Communicator& world) {
      std::vector<std::string> failures = body(world);
      const bool as_asked = backend == "auto" || world.backend() == options.backend;
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
