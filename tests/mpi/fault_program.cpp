// A job that fault_test.py, shm_fault_test.py and rendezvous_test.py disturb:
// `fault_program MODE DEADLINE_MS [RANKS [BACKEND|file:PATH [LEAVER]]]`, where rank LEAVER exits
// without a word in the middle of a "loop-" mode. Reports errors and ends the way cli/main.cpp
// does.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "collectives/liveness/stall.h"
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

// The same, and a thread of rank 1 finds that nobody comes further.
void stall(Communicator& world) {
  world.barrier();
  announce(world);
  if (world.rank() == 1)
    std::thread([] { fail_stalled("step 5 was not done within 3 s", {}); }).join();
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

// A message to the right and one from the left: in the order that completes even where a send ends
// only when it has been received.
void pass_around(Communicator& world, std::span<std::byte> data) {
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  if (world.rank() == 0) world.send(data, right);
  world.receive(data, left);
  if (world.rank() != 0) world.send(data, right);
}

void one_call(Communicator& world, const std::string& kind, std::span<std::byte> data) {
  if (kind == "eager") return pass_around(world, data.first(1000));
  if (kind == "long") return pass_around(world, data);
  if (kind == "barrier") return world.barrier();
  if (kind == "split") return static_cast<void>(world.split(0, 0, "dp"));
  world.all_reduce(data, data, nqd::DType::kFloat32, ReduceOp::kMax,
                   kind == "direct" ? Algorithm::kDirect : Algorithm::kRing);
}

void loop(Communicator& world, const std::string& kind, int leaver) {
  std::vector<float> data(1'000'000, 1.0f);
  world.barrier();
  announce(world);
  for (int i = 0;; ++i) {
    if (world.rank() == leaver && i == 50) std::_Exit(0);
    one_call(world, kind, writable_bytes_of(std::span(data)));
  }
}

// Rank 1 makes another collective, whose first messages have the length of the others'.
void crossed(Communicator& world) {
  std::vector<float> data(1000u * unsigned(world.size()), 1.0f);
  std::vector<float> part(1000, 1.0f);
  const auto bytes = writable_bytes_of(std::span(data));
  announce(world);
  if (world.rank() == 1) {
    world.all_gather(bytes_of(std::span<const float>(part)), bytes, nqd::DType::kFloat32,
                     Algorithm::kRing);
  } else {
    world.all_reduce(bytes, bytes, nqd::DType::kFloat32, ReduceOp::kSum, Algorithm::kRing);
  }
  world.barrier();
}

void run_mode(const std::string& mode, Communicator& world, int leaver) {
  if (mode.starts_with("loop-")) return loop(world, mode.substr(5), leaver);
  if (mode == "crossed") return crossed(world);
  if (mode == "reduce") return reduce_for_ever(world);
  if (mode == "compute") return compute(world);
  if (mode == "stall") return stall(world);
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
  if (argc > 4 && std::string(argv[4]).starts_with("file:")) {
    options.rendezvous = argv[4];
  } else if (argc > 4) {
    options.backend = argv[4];
  }
  const int leaver = argc > 5 ? std::stoi(argv[5]) : -1;
  int code = 0;
  try {
    run_world(options, [&](Communicator& world) { run_mode(argv[1], world, leaver); });
  } catch (const nqd::Error& error) {
    nqd::log::error("[" + error.code() + "]: " + error.what());
    code = static_cast<int>(error.exit_code());
  }
  if (code != 0) abort_process(code);
  return 0;
}
