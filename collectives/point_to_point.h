// The Communicator over any Transport: what every CPU backend hands out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "collectives/communicator.h"
#include "collectives/dispatch.h"
#include "collectives/scratch.h"
#include "collectives/transport.h"
#include "collectives/worker.h"

namespace nqd::collectives {

class PointToPointCommunicator final : public Communicator {
 public:
  // `check_calls`: as in WorldOptions.
  explicit PointToPointCommunicator(std::unique_ptr<Transport> transport, bool check_calls = false);

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  const std::string& group() const override { return transport_->group(); }
  std::string_view backend() const override { return transport_->backend(); }
  const std::string& host(int rank) const override { return transport_->host(rank); }
  int world_rank(int rank) const override { return transport_->world_rank(rank); }

  void run(const CollectiveCall& call, Algorithm algorithm) override;
  Work start(const CollectiveCall& call, Algorithm algorithm) override;
  Algorithm chosen(Collective collective, Algorithm algorithm,
                   std::optional<std::uint64_t> bytes) const override;
  bool shares_memory() const override;
  void set_tuning(std::shared_ptr<const Tuning> tuning) override;
  void send(std::span<const std::byte> data, int to) override;
  void receive(std::span<std::byte> data, int from) override;
  void send_receive(std::span<const std::byte> data, int to, std::span<std::byte> received,
                    int from, Algorithm algorithm) override;
  Work send_async(std::span<const std::byte> data, int to) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& group) override;

  Traffic traffic() const override;
  void reset_traffic() override;
  void set_ledger(MemoryLedger* ledger) override;
  void set_deadline(std::chrono::milliseconds deadline) override;

 private:
  // Calls `operation` here, or behind the asynchronous operations that are pending.
  template <typename Operation>
  void run_in_order(Operation&& operation);
  Work submit(std::function<void()> operation);
  // One message each way; −1 is nobody.
  void exchange(std::span<const std::byte> data, int to, std::span<std::byte> received, int from,
                Algorithm resolved);
  // Waits until the caller owns the transport.
  void drain() const;
  bool can_run(Collective collective, Algorithm algorithm) const;

  std::shared_ptr<Transport> transport_;
  const bool check_calls_;
  Scratch scratch_;
  std::shared_ptr<const Tuning> tuning_;
  bool inside_node_ = true;  // all ranks of the group; valid with a tuning_
  // Destroyed first, so that pending operations end while the transport lives.
  std::unique_ptr<Worker> worker_;
};

}  // namespace nqd::collectives
