#include "collectives/simulation/recorder.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"

namespace nqd::collectives {
namespace {

// Thrown in ranks that wait for one that failed; its own error is the one that is reported.
struct Abandoned {};

[[noreturn]] void throw_whole_group_only() {
  throw Error(ExitCode::kUsage, "NQD2105", "a simulated group cannot be split",
              "simulate one collective of the whole group");
}

}  // namespace

std::vector<RecordedMessage> Recorder::take_messages() {
  std::stable_sort(messages_.begin(), messages_.end(),
                   [](const RecordedMessage& a, const RecordedMessage& b) {
                     return std::tie(a.step, a.from, a.to) < std::tie(b.step, b.from, b.to);
                   });
  return std::move(messages_);
}

void Recorder::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  arrived_.notify_all();
}

void Recorder::rethrow_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

RecordingTransport::RecordingTransport(Recorder& recorder, std::size_t rank,
                                       const std::vector<std::string>& hosts,
                                       std::span<const std::byte> vector)
    : Transport("simulation"), recorder_(recorder), rank_(rank), hosts_(hosts), vector_(vector) {}

std::vector<std::byte> RecordingTransport::gather_control(std::span<const std::byte>) {
  throw_whole_group_only();
}

std::unique_ptr<Transport> RecordingTransport::subgroup(const std::vector<int>&,
                                                        const std::string&) {
  throw_whole_group_only();
}

void RecordingTransport::take_snapshot() {
  std::vector<Snapshot>& mine = recorder_.snapshots[rank_];
  if (!mine.empty() && mine.back().step == clock_) mine.pop_back();
  mine.push_back({clock_, {vector_.begin(), vector_.end()}});
}

void RecordingTransport::do_send(std::span<const std::byte> data, int to, int /*tag*/) {
  // Between two waits the algorithm has worked on its vector: the step before is over only now.
  if (sends_ == 0 && receives_.empty()) take_snapshot();
  ++sends_;
  const std::lock_guard lock(recorder_.mutex_);
  const auto target = static_cast<std::size_t>(to);
  recorder_.messages_.push_back({0, rank_, target, {data.begin(), data.end()}});
  recorder_.mail_[{rank_, target}].push_back({recorder_.messages_.size() - 1, clock_ + sends_});
  recorder_.arrived_.notify_all();
}

void RecordingTransport::do_receive(std::span<std::byte> data, int from, int /*tag*/) {
  if (sends_ == 0 && receives_.empty()) take_snapshot();
  receives_.push_back({data, static_cast<std::size_t>(from)});
}

void RecordingTransport::do_wait() {
  if (sends_ == 0 && receives_.empty()) take_snapshot();
  const std::size_t turns = std::max({std::size_t{1}, sends_, receives_.size()});
  std::size_t done = clock_ + turns;
  std::unique_lock lock(recorder_.mutex_);
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    auto& mail = recorder_.mail_[{receives_[i].from, rank_}];
    recorder_.arrived_.wait(lock, [&] { return !mail.empty() || recorder_.failure_; });
    if (mail.empty()) throw Abandoned{};
    const Recorder::Mail letter = mail.front();
    mail.pop_front();
    RecordedMessage& message = recorder_.messages_[letter.message];
    std::memcpy(receives_[i].data.data(), message.data.data(), message.data.size());
    message.step = std::max(letter.slot, clock_ + i + 1);
    done = std::max(done, message.step);
  }
  clock_ = done;
  sends_ = 0;
  receives_.clear();
}

}  // namespace nqd::collectives
