#include "collectives/local/local.h"

#include <array>
#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "collectives/local/local_transport.h"
#include "collectives/point_to_point.h"

namespace nqd::collectives::local {
namespace {

// The error to report for the whole world: a body's own failure before the errors that it caused in
// others, and the copy that wants to be printed before quiet ones; among equals the first.
class FirstFailure {
 public:
  enum Rank { kCause, kQuietCopy, kConsequence, kRanks };

  void record(std::exception_ptr error, Rank rank) {
    const std::lock_guard lock(mutex_);
    if (!errors_[rank]) errors_[rank] = std::move(error);
  }
  void rethrow() const {
    for (const std::exception_ptr& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  std::mutex mutex_;
  std::array<std::exception_ptr, kRanks> errors_;
};

void fail_world(LocalWorld& world, int rank, const std::string& message) {
  const std::lock_guard lock(world.mutex);
  const std::string& host = world.host(rank);
  world.fail({Fault::Kind::kPeerFailed,
              {rank},
              host,
              "rank " + std::to_string(rank) + " (host " + host + ") failed: " + message});
}

void run_rank(const std::shared_ptr<LocalGroup>& group, int rank, const WorldOptions& options,
              const std::function<void(Communicator&)>& body, FirstFailure& failure) {
  LocalWorld& world = *group->world;
  if (group->world_ranks.size() > 1) log::set_thread_prefix("rank " + std::to_string(rank));
  try {
    auto transport = std::make_unique<LocalTransport>(group, rank, "world");
    transport->set_deadline(options.deadline);
    PointToPointCommunicator communicator(std::move(transport), options.check_calls);
    body(communicator);
  } catch (const Error& error) {
    // By code, so that a copy of a peer's error counts as what it was.
    const bool caused = error.code() == "NQD4001" || error.code() == "NQD4002";
    const auto kind = caused          ? FirstFailure::kConsequence
                      : error.quiet() ? FirstFailure::kQuietCopy
                                      : FirstFailure::kCause;
    failure.record(std::current_exception(), kind);
    fail_world(world, rank, error.what());
  } catch (const std::exception& error) {
    failure.record(std::current_exception(), FirstFailure::kCause);
    fail_world(world, rank, error.what());
  } catch (...) {
    failure.record(std::current_exception(), FirstFailure::kCause);
    fail_world(world, rank, "an exception without a message");
  }
  const std::lock_guard lock(world.mutex);
  world.end(rank);
}

}  // namespace

void run(int ranks, const WorldOptions& options, const std::function<void(Communicator&)>& body) {
  const auto world = std::make_shared<LocalWorld>(ranks, options.pretended_hosts);
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  std::shared_ptr<LocalGroup> group;
  {
    const std::lock_guard lock(world->mutex);
    group = world->make_group(all);
  }
  FirstFailure failure;
  std::vector<std::jthread> threads;
  for (const int rank : all) {
    threads.emplace_back([&, rank] { run_rank(group, rank, options, body, failure); });
  }
  threads.clear();
  failure.rethrow();
}

}  // namespace nqd::collectives::local
