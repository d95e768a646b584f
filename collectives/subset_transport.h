// Some ranks of a transport, seen as a group of their own within the call that the transport has
// open: the messages go through it, under its call, and it counts them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/transport.h"

namespace nqd::collectives {

class SubsetTransport final : public Transport {
 public:
  // `members` are ranks of `outer`, this one among them, in the order of their new ranks. Keeps a
  // reference.
  SubsetTransport(Transport& outer, std::vector<int> members);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string_view backend() const override { return outer_.backend(); }
  int world_rank(int rank) const override { return outer_.world_rank(outer_rank(rank)); }
  const std::string& host(int rank) const override { return outer_.host(outer_rank(rank)); }
  // Not offered: throw std::logic_error.
  std::vector<std::byte> gather_control(std::span<const std::byte> mine) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                      const std::string& group) override;

 private:
  int outer_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  void do_check() override {}
  void do_publish() override {}
  void do_send(std::span<const std::byte> data, int to, int /*tag*/) override {
    outer_.send(data, outer_rank(to));
  }
  void do_receive(std::span<std::byte> data, int from, int /*tag*/) override {
    outer_.receive(data, outer_rank(from));
  }
  void do_wait() override { outer_.wait(); }

  Transport& outer_;
  const std::vector<int> members_;
  int rank_ = 0;
};

}  // namespace nqd::collectives
