#include "collectives/nccl/session.h"

#include <algorithm>
#include <utility>

#include "collectives/mpi/backoff.h"
#include "collectives/nccl/sessions.h"
#include "collectives/waiting.h"

namespace nqd::collectives {
namespace {

using Seconds = std::chrono::duration<double>;

// Between two looks at the control communicator, which takes a lock or two.
constexpr Seconds kLookEvery{0.02};
// How long, at most, a fault that NCCL has seen may take to reach the control communicator, which
// names the rank.
constexpr std::chrono::milliseconds kFaultTravels{1000};
// How long, at most, the control communicator waits for ranks that are late in NCCL, to name them.
constexpr std::chrono::milliseconds kAskFor{2000};

bool is_failure(NcclResult result) {
  return result != NcclResult::kSuccess && result != NcclResult::kInProgress;
}

// A failure that another rank may have caused.
bool may_be_remote(NcclResult result) {
  return result == NcclResult::kRemoteError || result == NcclResult::kSystemError ||
         result == NcclResult::kInternalError || result == NcclResult::kUnhandledCudaError;
}

std::string hint_of(NcclResult result) {
  switch (result) {
    case NcclResult::kRemoteError:
      return "another rank failed or its host was lost: look at the other ranks' output first";
    case NcclResult::kUnhandledCudaError:
      return "a CUDA call of NCCL failed: look at dmesg | grep Xid, and run again with "
             "NCCL_DEBUG=INFO for the call";
    case NcclResult::kSystemError:
      return "a system call of NCCL failed (network, shared memory, limits): run again with "
             "NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p, and give these files to nqd diagnose";
    case NcclResult::kInvalidArgument:
    case NcclResult::kInvalidUsage:
      return "ranks made calls that do not fit each other, or NCCL was given what it does not "
             "take: NCCL_DEBUG=WARN says which";
    default:
      return "run again with NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p, and give these files to "
             "nqd diagnose";
  }
}

}  // namespace

NcclSession::NcclSession(DeviceApi& device, NcclApi& nccl, Place place, NcclOptions options)
    : device_(device),
      nccl_(nccl),
      place_(std::move(place)),
      options_(std::move(options)),
      exceptions_(std::uncaught_exceptions()),
      small_(device, DeviceBlock::Kind::kDevice),
      calls_(device) {
  device_.use(place_.device);
  stream_ = make_stream(device_);
  fork_ = make_event(device_);
  // At once as large as a split needs: a barrier under way must not lose it.
  small_.take(place_.members.size() * 2 * sizeof(std::int32_t));
}

NcclSession::~NcclSession() {
  const bool fails = broken_ || std::uncaught_exceptions() > exceptions_;
  if (fails) give_up();
  try {
    if (handle_ != nullptr) end();
  } catch (const Error&) {
    // Whoever failed has said so, or will.
    give_up();
  }
  if (options_.sessions) options_.sessions->remove(*this);
}

void NcclSession::end() {
  while (StreamCall* const call = calls_.oldest()) wait(*call);
  if (options_.sessions) options_.sessions->remove(*this);
  started_ = false;
  const Stage stage{place_.group};
  check(nccl_.finalize(handle_), stage);
  settle(stage);
  nccl_.destroy(std::exchange(handle_, nullptr));
}

const NcclCommOptions& NcclSession::comm_options(bool blocking) {
  comm_options_ = {blocking, "nqd " + place_.group, options_.max_blocks};
  return comm_options_;
}

void NcclSession::start(const NcclUniqueId& id) {
  const Stage stage{place_.group, Collective::kBarrier, 0, 0, true};
  check(nccl_.init(handle_, size(), id, rank(), comm_options(false)), stage);
  settle(stage);
  join();
}

void NcclSession::start_part(NcclSession& parent, int color, int key, bool blocking) {
  const Stage stage{parent.place_.group, Collective::kBarrier, 0, 0, true};
  parent.check(nccl_.split(parent.handle_, color, key, handle_, comm_options(blocking)), stage);
  parent.settle(stage);
  // With color < 0 NCCL gives no communicator.
  if (handle_ == nullptr) return;
  settle(stage);
  join();
}

void NcclSession::join() {
  started_ = true;
  if (options_.sessions) options_.sessions->add(*this);
}

void NcclSession::enter() {
  if (broken_) std::rethrow_exception(broken_);
  device_.use(place_.device);
}

template <typename Ask>
auto NcclSession::ask_device(const Stage& stage, const Ask& ask) {
  try {
    return ask();
  } catch (const Error& error) {
    break_off(
        Error(error.exit_code(), error.code(), error.what() + whereabouts(stage), error.hint()));
  }
}

std::shared_ptr<StreamCall> NcclSession::begin_call(const Stage& stage) {
  auto call = ask_device(stage, [&] { return calls_.make(stage); });
  device_.record(fork_.get(), options_.compute);
  device_.order(stream_.get(), fork_.get());
  device_.record(call->begin.get(), stream_.get());
  return call;
}

void NcclSession::end_call(const std::shared_ptr<StreamCall>& call) {
  // Before that NCCL may not have put all on the stream.
  settle(call->stage);
  device_.record(call->end.get(), stream_.get());
  calls_.put(call);
}

void NcclSession::follow(const std::shared_ptr<StreamCall>& call) {
  enter();
  calls_.follow(call, options_.compute);
}

NcclResult NcclSession::state() {
  NcclResult found = NcclResult::kSuccess;
  const NcclResult asked = nccl_.async_error(handle_, found);
  return is_failure(asked) ? asked : found;
}

void NcclSession::check(NcclResult result, const Stage& stage) {
  if (is_failure(result)) fail_reported(result, stage);
}

template <typename Done>
void NcclSession::poll(const Stage& stage, const Done& done) {
  const Waiting waiting;
  mpi::Backoff backoff;
  Seconds next_look = kLookEvery;
  for (;;) {
    const bool complete = done();
    check(state(), stage);
    if (complete) return;
    const Seconds waited = backoff.waited();
    if (waited >= next_look) {
      look_at_peers(stage);
      next_look = waited + kLookEvery;
    }
    if (waited >= options_.deadline) fail_late(stage);
    backoff.pause();
  }
}

void NcclSession::settle(const Stage& stage) {
  poll(stage, [this] { return state() != NcclResult::kInProgress; });
}

void NcclSession::wait(DeviceEvent event, const Stage& stage) {
  enter();
  poll(stage, [&] { return ask_device(stage, [&] { return device_.is_complete(event); }); });
}

void NcclSession::wait(StreamCall& call) {
  const Waiting waiting;
  enter();
  const auto complete = [&] {
    return ask_device(call.stage, [&] { return calls_.is_complete(call); });
  };
  for (mpi::Backoff backoff; !complete(); backoff.pause()) {
    look();
    // What the compute stream holds before it may wait for another communicator.
    if (!call.begun && backoff.waited() >= 2 * options_.deadline) fail_late(call.stage);
  }
  check(state(), call.stage);
}

void NcclSession::look() {
  enter();
  const StreamCall* const oldest = ask_device({place_.group}, [&] { return calls_.oldest(); });
  const Stage stage = oldest != nullptr ? oldest->stage : Stage{place_.group};
  check(state(), stage);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ >= kLookEvery) {
    looked_ = now;
    look_at_peers(stage);
  }
  if (oldest != nullptr && oldest->begun && now - *oldest->begun >= options_.deadline) {
    fail_late(stage);
  }
}

double NcclSession::take_stood_s() {
  return ask_device({place_.group}, [&] { return calls_.take_stood_s(); });
}

void NcclSession::look_at_peers(const Stage& stage) {
  if (!place_.control) return;
  try {
    // A message to nobody: all that it does is to look whether the world has failed.
    place_.control->send_receive({}, -1, {}, -1);
  } catch (const PeerLostError& lost) {
    fail_lost(lost, stage, {});
  }
}

std::string NcclSession::whereabouts(const Stage& stage) const {
  const NcclMember& mine = place_.members[static_cast<std::size_t>(place_.rank)];
  const std::string what = stage.sequence > 0 ? "in " + describe(stage)
                           : started_         ? "beside group " + stage.group
                                              : "while group " + stage.group + " starts or ends";
  return ", of rank " + std::to_string(mine.world_rank) + " on host " + mine.host + " " + what;
}

void NcclSession::fail_lost(const PeerLostError& lost, const Stage& stage,
                            const std::string& nccl_text) {
  break_off(PeerLostError(
      lost.lost_rank(), lost.host(),
      lost.what() + whereabouts(stage) + (nccl_text.empty() ? "" : "; NCCL says: " + nccl_text),
      lost.failed()));
}

void NcclSession::fail_reported(NcclResult result, const Stage& stage) {
  const std::string last = nccl_.last_error(handle_);
  const std::string text = nccl_.text(result) + (last.empty() ? "" : " (" + last + ")");
  if (place_.control && may_be_remote(result)) {
    mpi::Backoff backoff;
    while (backoff.waited() < std::min(kFaultTravels, options_.deadline)) {
      try {
        place_.control->send_receive({}, -1, {}, -1);
      } catch (const PeerLostError& lost) {
        fail_lost(lost, stage, text);
      }
      backoff.pause();
    }
  }
  break_off(Error(ExitCode::kFault, "NQD4012", "NCCL failed" + whereabouts(stage) + ": " + text,
                  hint_of(result)));
}

void NcclSession::fail_late(const Stage& stage) {
  const Seconds waited = options_.deadline;
  const std::string what =
      "NCCL did not complete within " + std::to_string(waited.count()) + " s" + whereabouts(stage);
  if (place_.control) {
    try {
      place_.control->set_deadline(std::min(kAskFor, options_.deadline));
      place_.control->barrier();
    } catch (const PeerLostError& lost) {
      fail_lost(lost, stage, what);
    } catch (const TimeoutError& late) {
      break_off(TimeoutError(late.waiting_for(), late.host(), what + "; " + late.what()));
    }
  }
  const NcclMember& mine = place_.members[static_cast<std::size_t>(place_.rank)];
  break_off(TimeoutError(
      {}, mine.host,
      what + (place_.control ? "; all ranks of the group wait in NCCL, which makes no progress"
                             : "; NCCL does not say for whom it waits")));
}

template <typename Failure>
void NcclSession::break_off(const Failure& error) {
  broken_ = std::make_exception_ptr(error);
  if (options_.last_words) options_.last_words(error);
  give_up();
  throw error;
}

void NcclSession::abandon() noexcept {
  if (!broken_) {
    broken_ = std::make_exception_ptr(
        Error(ExitCode::kFault, "NQD4012", "group " + place_.group + " was aborted",
              "the rank has failed before: look at its first message"));
  }
  give_up();
}

void NcclSession::give_up() noexcept {
  if (handle_ != nullptr) nccl_.end_now(std::exchange(handle_, nullptr));
}

}  // namespace nqd::collectives
