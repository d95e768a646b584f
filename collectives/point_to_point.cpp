#include "collectives/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/call_check.h"
#include "collectives/call_shape.h"
#include "collectives/cost.h"
#include "collectives/tuning.h"
#include "collectives/waiting.h"

namespace nqd::collectives {
namespace {

struct SplitChoice {
  int color = 0;
  int key = 0;
};

// The ranks of this rank's color, ordered by (key, rank).
std::vector<int> members_of(const std::vector<std::byte>& gathered, int color) {
  std::vector<std::pair<int, int>> found;  // key, rank
  for (std::size_t rank = 0; rank * sizeof(SplitChoice) < gathered.size(); ++rank) {
    SplitChoice choice;
    std::memcpy(&choice, gathered.data() + rank * sizeof choice, sizeof choice);
    if (choice.color == color) found.emplace_back(choice.key, static_cast<int>(rank));
  }
  std::sort(found.begin(), found.end());
  std::vector<int> members;
  for (const auto& [key, rank] : found) members.push_back(rank);
  return members;
}

// An all_reduce over several hosts that is shorter than this takes the algorithm of fewest steps.
// Measured over two hosts of two ranks (tests/multihost): of 1 KiB recursive doubling takes 0.2 ms
// and hierarchical 0.6, of 16 KiB 0.3 and 0.6, of 256 KiB 14.5 and 7.
constexpr std::uint64_t kFewSteps = 32 << 10;

// A rank of a gather or scatter knows its own part alone.
bool knows_payload(Collective collective) {
  return collective != Collective::kGather && collective != Collective::kScatter;
}

}  // namespace

PointToPointCommunicator::PointToPointCommunicator(std::unique_ptr<Transport> transport,
                                                   bool check_calls)
    : transport_(std::move(transport)), check_calls_(check_calls) {
  transport_->hosts();
}

template <typename Operation>
void PointToPointCommunicator::run_in_order(Operation&& operation) {
  const Waiting waiting;
  if (worker_ && worker_->busy()) {
    submit(std::function<void()>(operation)).wait();
    return;
  }
  try {
    operation();
  } catch (const Error&) {
    transport_->acknowledge_fault();
    throw;
  }
}

Work PointToPointCommunicator::submit(std::function<void()> operation) {
  if (!worker_) worker_ = std::make_unique<Worker>();
  auto state = std::make_shared<Work::State>();
  state->operation = std::move(operation);
  state->on_error = [transport = std::weak_ptr(transport_)] {
    if (const auto alive = transport.lock()) alive->acknowledge_fault();
  };
  worker_->submit(state);
  return Work(std::move(state));
}

void PointToPointCommunicator::drain() const {
  if (worker_) worker_->drain();
}

bool PointToPointCommunicator::can_run(Collective collective, Algorithm algorithm) const {
  if (!is_executable(collective, algorithm)) return false;
  if (algorithm == Algorithm::kHierarchical) return transport_->hosts().has_two_levels();
  if (algorithm != Algorithm::kDirect) {
    return has_cost(collective, algorithm, static_cast<std::size_t>(size()));
  }
  const PeerMemory* const peers = transport_->peer_memory();
  return peers != nullptr && peers->can_pull();
}

Algorithm PointToPointCommunicator::chosen(Collective collective, Algorithm algorithm,
                                           std::optional<std::uint64_t> bytes) const {
  if (algorithm == Algorithm::kLibrary) return algorithm;
  if (collective == Collective::kBarrier) {
    return transport_->peer_memory() != nullptr ? Algorithm::kDirect : Algorithm::kAuto;
  }
  if (algorithm == Algorithm::kAuto && tuning_ != nullptr && bytes && knows_payload(collective)) {
    const auto tuned = tuning_->algorithm(collective, size(), inside_node_, *bytes);
    if (tuned && can_run(collective, *tuned)) return *tuned;
  }
  if (algorithm == Algorithm::kAuto && can_run(collective, Algorithm::kDirect)) {
    return Algorithm::kDirect;
  }
  if (algorithm == Algorithm::kAuto && is_executable(collective, Algorithm::kHierarchical) &&
      transport_->hosts().has_two_levels()) {
    const bool small =
        collective == Collective::kAllReduce && bytes.value_or(kFewSteps) < kFewSteps;
    return small ? Algorithm::kRecursiveDoubling : Algorithm::kHierarchical;
  }
  const Algorithm resolved = resolve(collective, algorithm);
  // Throws where the number of ranks does not suit it.
  if (resolved != Algorithm::kDirect) steps(collective, resolved, static_cast<std::size_t>(size()));
  return resolved;
}

void PointToPointCommunicator::set_tuning(std::shared_ptr<const Tuning> tuning) {
  tuning_ = std::move(tuning);
  inside_node_ = ranks_on_this_host(*this) == size();
}

bool PointToPointCommunicator::shares_memory() const {
  const PeerMemory* const peers = transport_->peer_memory();
  return peers != nullptr && peers->can_share();
}

void PointToPointCommunicator::run(const CollectiveCall& call, Algorithm algorithm) {
  check_call(call, size(), rank(), group());
  const Algorithm resolved = chosen(call.collective, algorithm, payload_bytes(call));
  run_in_order([=, this] { run_collective(*transport_, scratch_, call, resolved, check_calls_); });
}

Work PointToPointCommunicator::start(const CollectiveCall& call, Algorithm algorithm) {
  check_call(call, size(), rank(), group());
  const Algorithm resolved = chosen(call.collective, algorithm, payload_bytes(call));
  return submit([=, this] { run_collective(*transport_, scratch_, call, resolved, check_calls_); });
}

void PointToPointCommunicator::send(std::span<const std::byte> data, int to) {
  check_rank(to, size(), group());
  send_receive(data, to, {}, -1, Algorithm::kAuto);
}

void PointToPointCommunicator::receive(std::span<std::byte> data, int from) {
  check_rank(from, size(), group());
  send_receive({}, -1, data, from, Algorithm::kAuto);
}

void PointToPointCommunicator::send_receive(std::span<const std::byte> data, int to,
                                            std::span<std::byte> received, int from,
                                            Algorithm algorithm) {
  if (to != -1) check_rank(to, size(), group());
  if (from != -1) check_rank(from, size(), group());
  const Algorithm resolved = chosen(Collective::kSendRecv, algorithm, data.size());
  run_in_order([=, this] { exchange(data, to, received, from, resolved); });
}

Work PointToPointCommunicator::send_async(std::span<const std::byte> data, int to) {
  check_rank(to, size(), group());
  return submit([=, this] { exchange(data, to, {}, -1, Algorithm::kAuto); });
}

void PointToPointCommunicator::exchange(std::span<const std::byte> data, int to,
                                        std::span<std::byte> received, int from,
                                        Algorithm resolved) {
  transport_->begin(Collective::kSendRecv);
  try {
    if (resolved == Algorithm::kLibrary) {
      transport_->library_exchange(data, to, received, from);
    } else {
      if (to != -1) transport_->send(data, to);
      if (from != -1) transport_->receive(received, from);
      transport_->wait();
    }
  } catch (const Error& error) {
    if (error.exit_code() == ExitCode::kFault) transport_->break_off(std::current_exception());
    throw;
  }
  transport_->end();
}

std::unique_ptr<Communicator> PointToPointCommunicator::split(int color, int key,
                                                              const std::string& group) {
  const SplitChoice mine{color, key};
  std::unique_ptr<Transport> part;
  run_in_order([&] {
    if (check_calls_) check_same_split(*transport_);
    const auto gathered = transport_->gather_control(std::as_bytes(std::span(&mine, 1)));
    if (color >= 0) part = transport_->subgroup(members_of(gathered, color), group);
  });
  if (!part) return nullptr;
  part->set_deadline(transport_->deadline());
  auto split = std::make_unique<PointToPointCommunicator>(std::move(part), check_calls_);
  split->set_tuning(tuning_);
  return split;
}

Traffic PointToPointCommunicator::traffic() const {
  drain();
  return transport_->traffic();
}

void PointToPointCommunicator::reset_traffic() {
  drain();
  transport_->reset_traffic();
}

void PointToPointCommunicator::set_ledger(MemoryLedger* ledger) {
  drain();
  scratch_.set_ledger(ledger);
}

void PointToPointCommunicator::set_deadline(std::chrono::milliseconds deadline) {
  drain();
  transport_->set_deadline(deadline);
}

}  // namespace nqd::collectives
