#include "collectives/device/staged.h"

#include <algorithm>
#include <array>
#include <utility>

#include "collectives/call_shape.h"
#include "collectives/dispatch.h"
#include "collectives/host_map.h"
#include "collectives/mpi/backoff.h"
#include "collectives/waiting.h"

namespace nqd::collectives {
namespace {

bool takes_pieces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kBroadcast;
}

TrafficCount count_of(const Communicator& communicator, Collective collective) {
  const Traffic traffic = communicator.traffic();
  const auto found = traffic.find({communicator.group(), collective});
  return found == traffic.end() ? TrafficCount{} : found->second;
}

}  // namespace

StagedCommunicator::StagedCommunicator(Communicator& inner, DeviceApi& api,
                                       const StagingOptions& options)
    : inner_(inner), api_(api), options_(options), slots_{make_slot(), make_slot()} {
  api_.use(options_.device);
  down_ = make_stream(api_);
  up_ = make_stream(api_);
  // Parts of parts, as hierarchical algorithms divide them, are whole lines too.
  constexpr std::size_t kElementsPerLine = 64;
  const HostMap hosts = host_map_of(inner_);
  unit_ = hosts.ranks() * hosts.shared_places() * hosts.hosts() * kElementsPerLine;
}

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> inner, DeviceApi& api,
                                       const StagingOptions& options)
    : StagedCommunicator(*inner, api, options) {
  owned_ = std::move(inner);
}

StagedCommunicator::~StagedCommunicator() = default;

StagedCommunicator::Slot StagedCommunicator::make_slot() const {
  const bool pinned = options_.buffers == StagingOptions::Buffers::kDevice;
  api_.use(options_.device);
  return {DeviceBlock(api_, pinned ? DeviceBlock::Kind::kPinned : DeviceBlock::Kind::kDevice),
          make_event(api_), make_event(api_)};
}

std::shared_ptr<StagedCommunicator::Begin> StagedCommunicator::begin() const {
  api_.use(options_.device);
  auto begin = std::make_shared<Begin>(Begin{make_event(api_)});
  api_.record(begin->event.get(), options_.compute);
  return begin;
}

void StagedCommunicator::wait(const OwnedEvent& event) const {
  for (mpi::Backoff backoff; !api_.is_complete(event.get()); backoff.pause()) {
  }
}

void StagedCommunicator::fetch(std::span<std::byte> to, std::span<const std::byte> from,
                               Slot& slot) {
  // Its last content must be back on the device.
  api_.order(down_.get(), slot.stored.get());
  if (!from.empty()) api_.copy(to.data(), from.data(), from.size(), down_.get());
  api_.record(slot.fetched.get(), down_.get());
}

void StagedCommunicator::store(std::span<std::byte> to, std::span<const std::byte> from,
                               Slot& slot) {
  if (!to.empty()) api_.copy(to.data(), from.data(), to.size(), up_.get());
  api_.record(slot.stored.get(), up_.get());
}

std::size_t StagedCommunicator::piece_elements(const CollectiveCall& call) const {
  if (options_.buffers == StagingOptions::Buffers::kHost || !takes_pieces(call.collective))
    return 0;
  const std::size_t element = size_bytes(call.type);
  const std::size_t total = payload_bytes(call).value_or(0) / element;
  const std::size_t wanted = std::max<std::size_t>(options_.piece_bytes / element, 1);
  const std::size_t piece = (wanted + unit_ - 1) / unit_ * unit_;
  return total >= 2 * piece ? piece : 0;
}

void StagedCommunicator::run_whole(const CollectiveCall& call, Algorithm algorithm) {
  const bool broadcasts = call.collective == Collective::kBroadcast;
  const bool gives = !broadcasts || rank() == call.root;
  const std::span<const std::byte> read =
      broadcasts ? std::span<const std::byte>(call.out) : call.in;
  const std::span<std::byte> in = slots_[0].memory.take(read.size());
  if (gives) fetch(in, read, slots_[0]);
  CollectiveCall staged = call;
  staged.in = in;
  staged.out = broadcasts ? in : slots_[1].memory.take(call.out.size());
  if (broadcasts) staged.in = {};
  if (gives) wait(slots_[0].fetched);
  inner_.run(staged, algorithm);
  // The others' output of a rooted collective is not touched.
  const bool rooted =
      call.collective == Collective::kReduce || call.collective == Collective::kGather;
  if (rooted && rank() != call.root) return;
  if (broadcasts && gives) return;
  Slot& last = slots_[broadcasts ? 0 : 1];
  store(call.out, staged.out, last);
  wait(last.stored);
}

void StagedCommunicator::run_pieces(const CollectiveCall& call, Algorithm algorithm,
                                    std::size_t piece) {
  const std::size_t element = size_bytes(call.type);
  const bool broadcasts = call.collective == Collective::kBroadcast;
  const std::span<const std::byte> read =
      broadcasts ? std::span<const std::byte>(call.out) : call.in;
  const bool gives = !broadcasts || rank() == call.root;
  const bool takes = call.collective == Collective::kAllReduce ||
                     (call.collective == Collective::kReduce) == (rank() == call.root);
  // The last piece takes the rest, so that all ranks have a part of it.
  const std::size_t pieces = read.size() / element / piece;
  const auto bytes_of_piece = [&](std::size_t k) {
    return k + 1 < pieces ? piece * element : read.size() - k * piece * element;
  };
  const auto begin_fetch = [&](std::size_t k) {
    Slot& slot = slots_[k % 2];
    const std::size_t bytes = bytes_of_piece(k);
    if (gives) fetch(slot.memory.take(bytes), read.subspan(k * piece * element, bytes), slot);
  };
  for (Slot& slot : slots_) slot.memory.take(2 * piece * element);
  const TrafficCount before = count_of(inner_, call.collective);
  TrafficCount largest;
  TrafficCount last = before;
  begin_fetch(0);
  for (std::size_t k = 0; k < pieces; ++k) {
    if (k + 1 < pieces) begin_fetch(k + 1);
    Slot& slot = slots_[k % 2];
    wait(gives ? slot.fetched : slot.stored);
    const std::span<std::byte> data = slot.memory.take(bytes_of_piece(k));
    CollectiveCall part = call;
    part.in = broadcasts ? std::span<const std::byte>{} : data;
    part.out = broadcasts || takes ? data : std::span<std::byte>{};
    inner_.run(part, algorithm);
    const TrafficCount now = count_of(inner_, call.collective);
    largest.messages = std::max(largest.messages, now.messages - last.messages);
    last = now;
    if (takes) store(call.out.subspan(k * piece * element, data.size()), data, slot);
  }
  for (const Slot& slot : slots_) wait(slot.stored);
  TrafficCount& surplus = surplus_[call.collective];
  surplus.calls += pieces - 1;
  surplus.messages += last.messages - before.messages - largest.messages;
}

// A call that fails leaves its copies on their way: the buffers must outlast them.
void StagedCommunicator::settle() noexcept {
  for (const Slot& slot : slots_) {
    for (const OwnedEvent* const event : {&slot.fetched, &slot.stored}) {
      try {
        wait(*event);
      } catch (const Error&) {  // of a device whose context is lost: nothing is on its way
      }
    }
  }
}

void StagedCommunicator::run_call(const CollectiveCall& call, Algorithm algorithm,
                                  const Begin& begin) {
  api_.use(options_.device);
  if (call.collective == Collective::kBarrier) return inner_.run(call, algorithm);
  api_.order(down_.get(), begin.event.get());
  // What is overwritten may still be read by what the compute stream holds.
  api_.order(up_.get(), begin.event.get());
  if (const std::size_t piece = piece_elements(call); piece > 0) {
    try {
      return run_pieces(call, chosen(call.collective, algorithm, payload_bytes(call)), piece);
    } catch (...) {
      settle();
      throw;
    }
  }
  run_whole(call, algorithm);
}

void StagedCommunicator::exchange(std::span<const std::byte> data, int to,
                                  std::span<std::byte> received, int from, Algorithm algorithm,
                                  const Begin& begin) {
  api_.use(options_.device);
  api_.order(down_.get(), begin.event.get());
  api_.order(up_.get(), begin.event.get());
  const std::span<std::byte> out = slots_[0].memory.take(data.size());
  const std::span<std::byte> in = slots_[1].memory.take(received.size());
  if (to >= 0) {
    fetch(out, data, slots_[0]);
    wait(slots_[0].fetched);
  }
  inner_.send_receive(out, to, in, from, algorithm);
  if (from < 0) return;
  store(received, in, slots_[1]);
  wait(slots_[1].stored);
}

void StagedCommunicator::run_in_order(const std::function<void()>& operation) {
  const Waiting waiting;
  if (worker_ && worker_->busy()) return submit(operation).wait();
  operation();
}

Work StagedCommunicator::submit(std::function<void()> operation) {
  if (!worker_) worker_ = std::make_unique<Worker>();
  auto state = std::make_shared<Work::State>();
  state->operation = std::move(operation);
  state->on_error = [] {};
  worker_->submit(state);
  return Work(std::move(state));
}

void StagedCommunicator::drain() const {
  if (worker_) worker_->drain();
}

void StagedCommunicator::run(const CollectiveCall& call, Algorithm algorithm) {
  check_call(call, size(), rank(), group());
  const auto at = begin();
  run_in_order([&, this] { run_call(call, algorithm, *at); });
}

Work StagedCommunicator::start(const CollectiveCall& call, Algorithm algorithm) {
  check_call(call, size(), rank(), group());
  return submit([this, call, algorithm, at = begin()] { run_call(call, algorithm, *at); });
}

void StagedCommunicator::send(std::span<const std::byte> data, int to) {
  check_rank(to, size(), group());
  send_receive(data, to, {}, -1, Algorithm::kAuto);
}

void StagedCommunicator::receive(std::span<std::byte> data, int from) {
  check_rank(from, size(), group());
  send_receive({}, -1, data, from, Algorithm::kAuto);
}

void StagedCommunicator::send_receive(std::span<const std::byte> data, int to,
                                      std::span<std::byte> received, int from,
                                      Algorithm algorithm) {
  const auto at = begin();
  run_in_order([&, this] { exchange(data, to, received, from, algorithm, *at); });
}

Work StagedCommunicator::send_async(std::span<const std::byte> data, int to) {
  check_rank(to, size(), group());
  return submit([=, this, at = begin()] { exchange(data, to, {}, -1, Algorithm::kAuto, *at); });
}

std::unique_ptr<Communicator> StagedCommunicator::split(int color, int key,
                                                        const std::string& group) {
  drain();
  auto part = inner_.split(color, key, group);
  if (!part) return nullptr;
  return std::make_unique<StagedCommunicator>(std::move(part), api_, options_);
}

Traffic StagedCommunicator::traffic() const {
  drain();
  Traffic traffic = inner_.traffic();
  for (const auto& [collective, surplus] : surplus_) {
    TrafficCount& count = traffic[{group(), collective}];
    count.calls -= surplus.calls;
    count.messages -= surplus.messages;
  }
  return traffic;
}

void StagedCommunicator::reset_traffic() {
  drain();
  inner_.reset_traffic();
  surplus_.clear();
}

void StagedCommunicator::set_ledger(MemoryLedger* ledger) {
  drain();
  inner_.set_ledger(ledger);
}

void StagedCommunicator::set_tuning(std::shared_ptr<const Tuning> tuning) {
  drain();
  inner_.set_tuning(std::move(tuning));
}

void StagedCommunicator::set_deadline(std::chrono::milliseconds deadline) {
  drain();
  inner_.set_deadline(deadline);
}

}  // namespace nqd::collectives
