#include "collectives/nccl/communicator.h"

#include <algorithm>
#include <utility>

#include "collectives/call_shape.h"
#include "collectives/nccl/calls.h"
#include "collectives/worker.h"

namespace nqd::collectives {
namespace {

// A Work without a worker: the device runs it. Its wait sets the outcome.
struct StreamState final : Work::State {
  StreamState(std::shared_ptr<NcclSession> of, std::shared_ptr<StreamCall> started)
      : session(std::move(of)), call(std::move(started)) {
    on_error = [] {};
  }
  void wait() override {
    if (done) return;
    done = true;
    try {
      if (session->options().stream_ordered) return session->follow(call);
      session->wait(*call);
      elapsed_s = session->device().elapsed_s(call->begin.get(), call->end.get());
    } catch (...) {
      error = std::current_exception();
    }
  }

  std::shared_ptr<NcclSession> session;
  std::shared_ptr<StreamCall> call;
};

}  // namespace

void StreamWork::wait() { session_->wait(*call_); }

void StreamWork::order(DeviceStream stream) const {
  session_->device().order(stream, call_->end.get());
}

double StreamWork::elapsed_s() const {
  return session_->device().elapsed_s(call_->begin.get(), call_->end.get());
}

Work StreamWork::handle() && {
  return Work(std::make_shared<StreamState>(std::move(session_), std::move(call_)));
}

void StreamWork::finish() {
  session_->options().stream_ordered ? session_->follow(call_) : session_->wait(*call_);
}

NcclBuffer::NcclBuffer(std::shared_ptr<NcclSession> session, std::size_t bytes)
    : session_(std::move(session)), size_(bytes) {
  session_->enter();
  NcclApi& nccl = session_->nccl();
  from_nccl_ = nccl.allocate(data_, bytes) == NcclResult::kSuccess;
  if (!from_nccl_) data_ = session_->device().allocate(bytes);
  if (nccl.register_buffer(session_->handle(), data_, bytes, handle_) != NcclResult::kSuccess) {
    handle_ = nullptr;
  }
}

NcclBuffer::~NcclBuffer() { reset(); }

NcclBuffer::NcclBuffer(NcclBuffer&& other) noexcept { *this = std::move(other); }

NcclBuffer& NcclBuffer::operator=(NcclBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  session_ = std::move(other.session_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  from_nccl_ = other.from_nccl_;
  handle_ = std::exchange(other.handle_, nullptr);
  return *this;
}

void NcclBuffer::reset() noexcept {
  if (data_ == nullptr) return;
  // An aborted communicator has dropped its registrations.
  if (handle_ != nullptr && session_->handle() != nullptr) {
    session_->nccl().deregister_buffer(session_->handle(), handle_);
  }
  handle_ = nullptr;
  from_nccl_ ? static_cast<void>(session_->nccl().release(data_))
             : session_->device().release(data_);
  data_ = nullptr;
}

Stage NcclCommunicator::next_stage(Collective collective) {
  std::uint64_t& calls = collective == Collective::kSendRecv ? messages_ : calls_;
  return {group(), collective, ++calls, 0, true};
}

Stage NcclCommunicator::count(const CollectiveCall& call, Algorithm algorithm) {
  const RankTraffic sent = planned_traffic(call, static_cast<std::size_t>(size()),
                                           static_cast<std::size_t>(rank()), algorithm);
  TrafficCount& total = counts_[call.collective];
  ++total.calls;
  total.messages += sent.messages;
  total.bytes_sent += sent.bytes_sent;
  return next_stage(call.collective);
}

Stage NcclCommunicator::count_message(std::span<const std::byte> data, int to) {
  TrafficCount& total = counts_[Collective::kSendRecv];
  ++total.calls;
  if (to >= 0) {
    ++total.messages;
    total.bytes_sent += data.size();
  }
  return next_stage(Collective::kSendRecv);
}

template <typename Put>
StreamWork NcclCommunicator::on_stream(const Stage& stage, const Put& put) {
  const std::shared_ptr<StreamCall> call = session_->begin_call(stage);
  put(session_->stream());
  session_->end_call(call);
  return {session_, call};
}

StreamWork NcclCommunicator::enqueue(const CollectiveCall& call, Algorithm algorithm) {
  check_call(call, size(), rank(), group());
  session_->enter();
  const Stage stage = count(call, algorithm);
  return on_stream(stage, [&](DeviceStream stream) { put_call(*session_, call, stream, stage); });
}

StreamWork NcclCommunicator::enqueue_exchange(std::span<const std::byte> data, int to,
                                              std::span<std::byte> received, int from) {
  if (to != -1) check_rank(to, size(), group());
  if (from != -1) check_rank(from, size(), group());
  session_->enter();
  const Stage stage = count_message(data, to);
  return on_stream(stage, [&](DeviceStream stream) {
    collectives::put_exchange(*session_, data, to, received, from, stream, stage);
  });
}

void NcclCommunicator::put(const CollectiveCall& call, DeviceStream stream) {
  check_call(call, size(), rank(), group());
  session_->enter();
  const Stage stage = count(call, Algorithm::kAuto);
  put_call(*session_, call, stream, stage);
  session_->settle(stage);
}

void NcclCommunicator::put_exchange(std::span<const std::byte> data, int to,
                                    std::span<std::byte> received, int from, DeviceStream stream) {
  if (to != -1) check_rank(to, size(), group());
  if (from != -1) check_rank(from, size(), group());
  session_->enter();
  const Stage stage = count_message(data, to);
  collectives::put_exchange(*session_, data, to, received, from, stream, stage);
  session_->settle(stage);
}

Algorithm NcclCommunicator::chosen(Collective collective, Algorithm algorithm,
                                   std::optional<std::uint64_t>) const {
  const bool any = session_->options().stream_ordered;
  if (any || algorithm == Algorithm::kAuto || algorithm == Algorithm::kLibrary) {
    return Algorithm::kLibrary;
  }
  throw Error(ExitCode::kUsage, "NQD2102",
              "NCCL chooses the algorithm of " + std::string(name(collective)) + " itself, so " +
                  std::string(name(algorithm)) + " cannot be asked for",
              "use auto; NCCL_ALGO and NCCL_PROTO restrict its choice for a whole run");
}

void NcclCommunicator::run(const CollectiveCall& call, Algorithm algorithm) {
  chosen(call.collective, algorithm, {});
  StreamWork work = enqueue(call, algorithm);
  // A barrier is for the host.
  call.collective == Collective::kBarrier ? work.wait() : work.finish();
}

Work NcclCommunicator::start(const CollectiveCall& call, Algorithm algorithm) {
  chosen(call.collective, algorithm, {});
  return enqueue(call, algorithm).handle();
}

void NcclCommunicator::send(std::span<const std::byte> data, int to) {
  check_rank(to, size(), group());
  enqueue_exchange(data, to, {}, -1).finish();
}

void NcclCommunicator::receive(std::span<std::byte> data, int from) {
  check_rank(from, size(), group());
  enqueue_exchange({}, -1, data, from).finish();
}

void NcclCommunicator::send_receive(std::span<const std::byte> data, int to,
                                    std::span<std::byte> received, int from, Algorithm algorithm) {
  chosen(Collective::kSendRecv, algorithm, {});
  enqueue_exchange(data, to, received, from).finish();
}

Work NcclCommunicator::send_async(std::span<const std::byte> data, int to) {
  check_rank(to, size(), group());
  return enqueue_exchange(data, to, {}, -1).handle();
}

std::vector<std::array<std::int32_t, 2>> NcclCommunicator::exchange(
    std::array<std::int32_t, 2> mine) {
  using Pair = std::array<std::int32_t, 2>;
  DeviceApi& device = session_->device();
  std::vector<Pair> all(static_cast<std::size_t>(size()));
  const std::size_t bytes = all.size() * sizeof(Pair);
  session_->enter();
  std::byte* const there = session_->small(bytes).data();
  const Stage stage{group(), Collective::kBarrier, 0, 0, true};
  on_stream(stage, [&](DeviceStream stream) {
    std::byte* const slot = there + static_cast<std::size_t>(rank()) * sizeof(Pair);
    device.copy(slot, reinterpret_cast<const std::byte*>(&mine), sizeof mine, stream);
    const CollectiveCall gather{
        Collective::kAllGather, {slot, sizeof(Pair)}, {there, bytes}, DType::kUInt8};
    put_call(*session_, gather, stream, stage);
  }).wait();
  // Not before: a copy to memory that is not pinned holds the host until the ranks have come.
  on_stream(stage, [&](DeviceStream stream) {
    device.copy(reinterpret_cast<std::byte*>(all.data()), there, bytes, stream);
  }).wait();
  return all;
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::part(int color, int key,
                                                         const std::string& group, bool blocking,
                                                         const NcclOptions& options) {
  const auto all = exchange({color, key});
  std::vector<std::pair<std::int32_t, int>> order;  // key, rank
  for (int peer = 0; peer < size(); ++peer) {
    const auto& [their_color, their_key] = all[static_cast<std::size_t>(peer)];
    if (their_color == color) order.emplace_back(their_key, peer);
  }
  std::sort(order.begin(), order.end());
  NcclSession::Place place;
  place.group = group;
  place.device = session_->place().device;
  for (const auto& [their_key, peer] : order) {
    if (peer == rank()) place.rank = static_cast<int>(place.members.size());
    place.members.push_back(member(peer));
  }
  Communicator* const control = session_->place().control.get();
  if (control != nullptr) place.control = control->split(color, key, group);
  auto session = std::make_shared<NcclSession>(session_->device(), session_->nccl(),
                                               std::move(place), options);
  session->start_part(*session_, color, key, blocking);
  if (color < 0) return nullptr;
  return std::make_unique<NcclCommunicator>(std::move(session));
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key,
                                                      const std::string& group) {
  return part(color, key, group, false, session_->options());
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::split(int color, int key,
                                                          const std::string& group,
                                                          const NcclOptions& options) {
  return part(color, key, group, false, options);
}

// A byte from each rank to each other opens NCCL's connections between them.
void NcclCommunicator::connect() {
  session_->enter();
  const auto ranks = static_cast<std::size_t>(size());
  const std::span<std::byte> bytes = session_->small(2 * ranks);
  const CollectiveCall greeting{Collective::kAllToAll, bytes.first(ranks), bytes.last(ranks)};
  const Stage stage{group()};
  on_stream(stage, [&](DeviceStream stream) {
    put_call(*session_, greeting, stream, stage);
  }).wait();
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::blocking_twin() {
  return part(0, rank(), group(), true, session_->options());
}

std::optional<double> NcclCommunicator::estimate_s(const CollectiveCall& call) {
  check_call(call, size(), rank(), group());
  session_->enter();
  const Stage stage{group(), call.collective, 0, 0, true};
  NcclApi& nccl = session_->nccl();
  session_->check(nccl.group_start(), stage);
  put_call(*session_, call, session_->stream(), stage);
  double seconds = -1;
  session_->check(nccl.group_simulate(seconds), stage);
  return seconds >= 0 ? std::optional(seconds) : std::nullopt;
}

Traffic NcclCommunicator::traffic() const {
  Traffic traffic;
  for (const auto& [collective, count] : counts_) traffic[{group(), collective}] = count;
  return traffic;
}

}  // namespace nqd::collectives
