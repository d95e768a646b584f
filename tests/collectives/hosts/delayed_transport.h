// A network between the threads of a test: messages go through another transport at once, and a
// clock of each rank says when they would have arrived. No thread sleeps; times are exact sums.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport.h"

namespace nqd::collectives {

// One cable out of every host, which all its ranks share: a message takes the time that the cable
// has free from its start on, whichever thread came first, and arrives α later. Inside a host
// messages cost another α and β and hinder nobody.
class ModelledNetwork {
 public:
  ModelledNetwork(Link inside, Link across) : inside_(inside), across_(across) {}

  void send(int from, int to, const std::string& from_host, bool crosses, double at_s,
            std::size_t bytes);
  // When the next message on this path arrives.
  double receive(int from, int to);
  std::size_t bytes_across(const std::string& from_host);

 private:
  const Link inside_;
  const Link across_;
  std::mutex mutex_;
  // When the cable is taken: by begin, disjoint.
  using Taken = std::map<double, double>;
  // Takes `length_s` from `at_s` on, in pieces where it must; the end of the last.
  static double take(Taken& taken, double at_s, double length_s);

  std::map<std::string, Taken> cables_;
  std::map<std::string, std::size_t> bytes_across_;
  std::map<std::pair<int, int>, std::deque<double>> arrivals_s_;
};

class DelayedTransport final : public Transport {
 public:
  DelayedTransport(std::unique_ptr<Transport> inner, ModelledNetwork& network)
      : Transport(inner->group()), inner_(std::move(inner)), network_(network) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view backend() const override { return inner_->backend(); }
  int world_rank(int rank) const override { return inner_->world_rank(rank); }
  const std::string& host(int rank) const override { return inner_->host(rank); }
  std::vector<std::byte> gather_control(std::span<const std::byte> mine) override {
    return inner_->gather_control(mine);
  }
  std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                      const std::string& group) override {
    return inner_->subgroup(members, group);
  }

  double now_s() const { return now_s_; }

 private:
  void do_check() override { inner_->begin(stage().collective); }
  void do_publish() override {}
  void do_send(std::span<const std::byte> data, int to, int tag) override;
  void do_receive(std::span<std::byte> data, int from, int tag) override;
  void do_wait() override;

  std::unique_ptr<Transport> inner_;
  ModelledNetwork& network_;
  std::vector<int> receives_;  // from whom
  double now_s_ = 0;
};

}  // namespace nqd::collectives
