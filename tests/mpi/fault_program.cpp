// A job that fault_test.py disturbs: `fault_program MODE DEADLINE_MS`. Reports errors and ends the
// way cli/main.cpp does.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "collectives/world.h"

namespace {

using namespace nqd::collectives;

void announce(const Communicator& world) {
  // The harness waits for this line before it strikes.
  std::printf("ready %d %d\n", world.rank(), static_cast<int>(::getpid()));
  std::fflush(stdout);
}

// all_reduce without end; the split group is where a fault must be found too.
void reduce_for_ever(Communicator& world) {
  const auto group = world.split(0, 0, "dp");
  std::vector<float> data(100'000, 1.0f);
  const auto bytes = writable_bytes_of(std::span(data));
  announce(world);
  for (;;) {
    Work work = group->all_reduce_async(bytes, nqd::DType::kFloat32, ReduceOp::kMax);
    work.wait();
    group->all_reduce(bytes, bytes, nqd::DType::kFloat32, ReduceOp::kMax);
  }
}

// Rank 1 leaves the job after a while; the others reduce.
void leave_early(Communicator& world, const std::string& how) {
  std::vector<float> data(1000, 1.0f);
  const auto bytes = writable_bytes_of(std::span(data));
  announce(world);
  for (int i = 0;; ++i) {
    if (world.rank() == 1 && i == 100) {
      if (how == "exit") std::_Exit(0);
      if (how == "throw") {
        throw nqd::Error(nqd::ExitCode::kUsage, "NQD2001", "the data file is gone");
      }
      return;
    }
    world.all_reduce(bytes, bytes, nqd::DType::kFloat32, ReduceOp::kMax);
  }
}

// Every rank is deep in a computation that no fault flag reaches.
void compute(Communicator& world) {
  world.barrier();
  announce(world);
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

// Every rank but 1, which sleeps, is inside the library's own blocking call.
void library(Communicator& world) {
  std::vector<float> data(100'000, 1.0f);
  const auto bytes = writable_bytes_of(std::span(data));
  world.barrier();
  announce(world);
  if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
  world.all_reduce(bytes, bytes, nqd::DType::kFloat32, ReduceOp::kSum, Algorithm::kLibrary);
}

// Ranks disagree about the length of a vector.
void mismatch(Communicator& world) {
  announce(world);
  std::vector<float> data(world.rank() == 1 ? 1000 : 2000, 1.0f);
  const auto bytes = writable_bytes_of(std::span(data));
  world.all_reduce(bytes, bytes, nqd::DType::kFloat32, ReduceOp::kSum);
}

void run_mode(const std::string& mode, Communicator& world) {
  if (mode == "reduce") return reduce_for_ever(world);
  if (mode == "compute") return compute(world);
  if (mode == "library") return library(world);
  if (mode == "mismatch") return mismatch(world);
  if (mode == "return") return announce(world);
  leave_early(world, mode);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  WorldOptions options;
  options.deadline = std::chrono::milliseconds(std::stoi(argv[2]));
  if (argc > 3) options.ranks = std::stoi(argv[3]);
  int code = 0;
  try {
    run_world(options, [&](Communicator& world) { run_mode(argv[1], world); });
  } catch (const nqd::Error& error) {
    nqd::log::error("[" + error.code() + "]: " + error.what());
    code = static_cast<int>(error.exit_code());
  }
  if (code != 0) abort_process(code);
  return 0;
}
