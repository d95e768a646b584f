#include "collectives/local/local.h"

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

// The first body that failed by itself; errors that its failure caused in others do not count.
class FirstFailure {
 public:
  void record(std::exception_ptr error, bool is_cause) {
    const std::lock_guard lock(mutex_);
    std::exception_ptr& slot = is_cause ? cause_ : consequence_;
    if (!slot) slot = std::move(error);
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
    if (consequence_) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::exception_ptr consequence_;
};

void fail_world(LocalWorld& world, int rank, const std::string& message) {
  const std::lock_guard lock(world.mutex);
  world.fail({Fault::Kind::kPeerLost,
              {rank},
              world.host(),
              "rank " + std::to_string(rank) + " (host " + world.host() + ") failed: " + message});
}

void run_rank(const std::shared_ptr<LocalGroup>& group, int rank, const WorldOptions& options,
              const std::function<void(Communicator&)>& body, FirstFailure& failure) {
  LocalWorld& world = *group->world;
  if (group->world_ranks.size() > 1) log::set_thread_prefix("rank " + std::to_string(rank));
  try {
    auto transport = std::make_unique<LocalTransport>(group, rank, "world");
    transport->set_deadline(options.deadline);
    PointToPointCommunicator communicator(std::move(transport));
    body(communicator);
  } catch (const PeerLostError& error) {
    failure.record(std::current_exception(), false);
    fail_world(world, rank, error.what());
  } catch (const TimeoutError& error) {
    failure.record(std::current_exception(), false);
    fail_world(world, rank, error.what());
  } catch (const std::exception& error) {
    failure.record(std::current_exception(), true);
    fail_world(world, rank, error.what());
  } catch (...) {
    failure.record(std::current_exception(), true);
    fail_world(world, rank, "an exception without a message");
  }
  const std::lock_guard lock(world.mutex);
  world.end(rank);
}

}  // namespace

void run(int ranks, const WorldOptions& options, const std::function<void(Communicator&)>& body) {
  const auto world = std::make_shared<LocalWorld>(ranks);
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
