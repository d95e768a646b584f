#include "collectives/local/local_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/host.h"

namespace nqd::collectives::local {

LocalTransport::LocalTransport(std::shared_ptr<LocalGroup> group, int rank, const std::string& name)
    : Transport(name),
      group_(std::move(group)),
      world_(group_->world),
      rank_(rank),
      peers_(group_->control, peer_options()) {
  const HostMap& map = hosts();
  if (map.hosts() == 1) return;
  const std::size_t host = map.host_of(static_cast<std::size_t>(rank_));
  host_group_ = join(map.members(host), name);
}

PeerMemory* LocalTransport::host_memory() {
  if (!host_group_) return &peers_;
  host_group_->follow(*this);
  return &host_group_->peers_;
}

PeerMemory::Options LocalTransport::peer_options() {
  // A short wait is not worth a sleep where every rank has a core.
  constexpr int kSpins = 2000;
  PeerMemory::Options options;
  options.rank = rank_;
  options.size = size();
  options.one_process = true;
  options.spins = world_->size() <= read_host_info().usable_cpus ? kSpins : 0;
  options.check = [this](double waited_s) { check_ranks(waited_s); };
  return options;
}

void LocalTransport::check_ranks(double waited_s) {
  const std::lock_guard lock(world_->mutex);
  // Under the lock, so that a rank which has ended, as the mutex tells, is seen to have arrived.
  std::vector<int> pending;
  for (const int rank : peers_.missing()) pending.push_back(world_rank(rank));
  if (pending.empty()) return;
  check_progress(waited_s, pending);
  if (world_->stop_time() && std::chrono::steady_clock::now() >= *world_->stop_time()) {
    world_->fault()->raise();
  }
}

int LocalTransport::world_rank(int rank) const {
  return group_->world_ranks[static_cast<std::size_t>(rank)];
}

void LocalTransport::do_check() {
  const std::lock_guard lock(world_->mutex);
  if (world_->fault()) world_->fault()->raise();
}

void LocalTransport::do_publish() {
  const std::lock_guard lock(world_->mutex);
  world_->publish(world_rank(rank_), stage());
}

void LocalTransport::do_send(std::span<const std::byte> data, int to, int tag) {
  const std::lock_guard lock(world_->mutex);
  sends_.push_back({data, to, tag});
  group_->box(rank_, to).push_back(&sends_.back());
  group_->changed[static_cast<std::size_t>(to)].notify_all();
}

void LocalTransport::do_receive(std::span<std::byte> data, int from, int tag) {
  receives_.push_back({data, from, tag});
}

void LocalTransport::do_wait() {
  if (sends_.empty() && receives_.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(world_->mutex);
  try {
    for (;;) {
      while (take_arrivals(lock)) {
      }
      if (complete()) break;
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      check_progress(waited.count(), pending_peers());
      const auto stop = world_->stop_time().value_or(start + deadline());
      if (world_->fault() && std::chrono::steady_clock::now() >= stop) world_->fault()->raise();
      group_->changed[static_cast<std::size_t>(rank_)].wait_until(lock, stop);
    }
  } catch (...) {
    withdraw(lock);
    throw;
  }
  sends_.clear();
  receives_.clear();
}

bool LocalTransport::take_arrivals(std::unique_lock<std::mutex>& lock) {
  bool copied = false;
  for (Receive& receive : receives_) {
    if (receive.done) continue;
    auto& box = group_->box(receive.from, rank_);
    const auto found = std::find_if(box.begin(), box.end(), [&](const Message* message) {
      return message->tag == receive.tag;
    });
    if (found == box.end()) continue;
    Message& message = **found;
    box.erase(found);
    copy_message(lock, message, receive);
    copied = true;
  }
  return copied;
}

void LocalTransport::copy_message(std::unique_lock<std::mutex>& lock, Message& message,
                                  Receive& receive) {
  const std::size_t bytes = message.data.size();
  const bool agreed = bytes == receive.data.size();
  if (agreed && bytes > 0) {
    // In this state the sender cannot take the message back.
    message.state = Message::State::kCopying;
    lock.unlock();
    std::memcpy(receive.data.data(), message.data.data(), bytes);
    lock.lock();
  }
  message.state = Message::State::kDone;
  receive.done = true;
  group_->changed[static_cast<std::size_t>(receive.from)].notify_all();
  if (!agreed) throw_wrong_length(receive.from, std::to_string(bytes), receive.data.size());
}

bool LocalTransport::complete() const {
  return std::all_of(receives_.begin(), receives_.end(), [](const Receive& r) { return r.done; }) &&
         std::all_of(sends_.begin(), sends_.end(),
                     [](const Message& m) { return m.state == Message::State::kDone; });
}

std::vector<int> LocalTransport::pending_peers() const {
  std::vector<int> peers;
  for (const Receive& receive : receives_) {
    if (!receive.done) peers.push_back(world_rank(receive.from));
  }
  for (const Message& message : sends_) {
    if (message.state != Message::State::kDone) peers.push_back(world_rank(message.to));
  }
  return peers;
}

void LocalTransport::check_progress(double waited_s, const std::vector<int>& pending) {
  for (const int peer : pending) {
    // A send completes only when received, so an ended rank has nothing left to deliver.
    if (!world_->ended(peer)) continue;
    world_->fail({Fault::Kind::kPeerLost,
                  {peer},
                  world_->host(peer),
                  "rank " + std::to_string(peer) + " (host " + world_->host(peer) +
                      ") ended its part of the run while rank " +
                      std::to_string(world_rank(rank_)) + " waits for it in " + describe(stage())});
  }
  if (waited_s < std::chrono::duration<double>(deadline()).count()) return;
  std::vector<PeerStatus> group;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) group.push_back(world_->status(world_rank(rank)));
  }
  world_->fail(timeout_fault(stage(), waited_s, std::move(group), pending));
}

void LocalTransport::withdraw(std::unique_lock<std::mutex>& lock) {
  for (Message& message : sends_) {
    std::erase(group_->box(rank_, message.to), &message);
    group_->changed[static_cast<std::size_t>(rank_)].wait(
        lock, [&] { return message.state != Message::State::kCopying; });
  }
  sends_.clear();
  receives_.clear();
}

std::vector<std::byte> LocalTransport::gather_control(std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(size()));
  for (int rank = 0; rank < size(); ++rank) {
    const auto part =
        std::span(all).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
    if (rank == rank_) {
      std::memcpy(part.data(), mine.data(), mine.size());
    } else {
      do_send(mine, rank, kControlTag);
      do_receive(part, rank, kControlTag);
    }
  }
  do_wait();
  return all;
}

std::unique_ptr<Transport> LocalTransport::subgroup(const std::vector<int>& members,
                                                    const std::string& name) {
  return join(members, name);
}

std::unique_ptr<LocalTransport> LocalTransport::join(const std::vector<int>& members,
                                                     const std::string& name) {
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(world_rank(member));
  const auto self = std::find(members.begin(), members.end(), rank_) - members.begin();
  std::unique_lock lock(world_->mutex);
  auto group = world_->join(group_.get(), ++subgroup_calls_[world_ranks], world_ranks);
  lock.unlock();
  return std::make_unique<LocalTransport>(std::move(group), static_cast<int>(self), name);
}

}  // namespace nqd::collectives::local
