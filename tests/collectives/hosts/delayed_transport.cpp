#include "tests/collectives/hosts/delayed_transport.h"

#include <algorithm>

namespace nqd::collectives {

void ModelledNetwork::send(int from, int to, const std::string& from_host, bool crosses,
                           double at_s, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto length = static_cast<double>(bytes);
  double arrives_s = at_s + length * inside_.beta_s_per_byte + inside_.alpha_s;
  if (crosses) {
    bytes_across_[from_host] += bytes;
    arrives_s = take(cables_[from_host], at_s, length * across_.beta_s_per_byte) + across_.alpha_s;
  }
  arrivals_s_[{from, to}].push_back(arrives_s);
}

double ModelledNetwork::take(Taken& taken, double at_s, double length_s) {
  Taken mine;
  auto next = taken.begin();
  while (length_s > 0) {
    while (next != taken.end() && next->second <= at_s) ++next;
    if (next != taken.end() && next->first <= at_s) {
      at_s = next->second;
      continue;
    }
    const double free_s = next == taken.end() ? length_s : next->first - at_s;
    const double piece_s = std::min(free_s, length_s);
    mine[at_s] = at_s + piece_s;
    at_s += piece_s;
    length_s -= piece_s;
    if (length_s < 1e-15) break;
  }
  taken.merge(mine);
  return at_s;
}

double ModelledNetwork::receive(int from, int to) {
  const std::lock_guard lock(mutex_);
  auto& arrivals = arrivals_s_[{from, to}];
  const double next = arrivals.front();
  arrivals.pop_front();
  return next;
}

std::size_t ModelledNetwork::bytes_across(const std::string& from_host) {
  const std::lock_guard lock(mutex_);
  return bytes_across_[from_host];
}

void DelayedTransport::do_send(std::span<const std::byte> data, int to, int /*tag*/) {
  network_.send(rank(), to, host(rank()), host(rank()) != host(to), now_s_, data.size());
  inner_->send(data, to);
}

void DelayedTransport::do_receive(std::span<std::byte> data, int from, int /*tag*/) {
  receives_.push_back(from);
  inner_->receive(data, from);
}

void DelayedTransport::do_wait() {
  inner_->wait();
  for (const int from : receives_) now_s_ = std::max(now_s_, network_.receive(from, rank()));
  receives_.clear();
}

}  // namespace nqd::collectives
