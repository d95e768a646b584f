#include "engine/train/background.h"

#include <sys/resource.h>
#include <unistd.h>

#include <future>

#include "base/log.h"
#include "engine/checkpoint/generations.h"
#include "engine/parallel/agree.h"
#include "engine/train/across_ranks.h"

namespace nqd::engine {

void yield_to_training() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

void wait_together(collectives::Communicator& world,
                   const std::function<bool(std::chrono::milliseconds)>& is_ready) {
  constexpr std::chrono::milliseconds kAtATime(50);
  while (sum_over(world, is_ready(kAtATime) ? 0 : 1) > 0) {
  }
}

void attempt_at_length(collectives::Communicator& world, const std::function<void()>& attempt) {
  std::future<void> done = std::async(std::launch::async, attempt);
  wait_together(world, [&](std::chrono::milliseconds patience) {
    return done.wait_for(patience) == std::future_status::ready;
  });
  attempt_together(world, [&] { done.get(); });
}

void as_fault(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.exit_code() == ExitCode::kFault) throw;
    throw Error(ExitCode::kFault, error.code(), error.what(), error.hint());
  }
}

bool is_survivable(const Error& error) {
  return error.exit_code() == ExitCode::kFault &&
         dynamic_cast<const collectives::PeerLostError*>(&error) == nullptr &&
         dynamic_cast<const collectives::TimeoutError*>(&error) == nullptr;
}

void prune_or_warn(Storage& storage, const std::filesystem::path& folder, const KeepPolicy& policy,
                   const std::vector<std::string>& in_use) {
  try {
    prune(storage, folder, policy, in_use);
  } catch (const Error& error) {
    warn_of("old checkpoints were not removed", error);
  }
}

void discard_or_warn(Storage& storage, const std::filesystem::path& generation) {
  try {
    discard_cut(storage, generation);
  } catch (const Error& error) {
    warn_of("what a failed save left was not removed", error);
  }
}

void warn_of(const std::string& what, const Error& error) {
  if (!error.quiet()) log::warn(what + ": " + error.what());
}

}  // namespace nqd::engine
