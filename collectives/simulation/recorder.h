// Messages between virtual ranks of one process, with the step in which each was delivered.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport.h"

namespace nqd::collectives {

struct RecordedMessage {
  std::size_t step = 0;
  std::size_t from = 0;
  std::size_t to = 0;
  std::vector<std::byte> data;
};

// A rank's vector once its clock had reached `step`.
struct Snapshot {
  std::size_t step = 0;
  std::vector<std::byte> vector;
};

// What the ranks of one run share.
class Recorder {
 public:
  explicit Recorder(std::size_t ranks) : snapshots(ranks) {}

  // By (step, from, to) after the run.
  std::vector<RecordedMessage> take_messages();
  // Ends every wait: a rank has failed.
  void fail(std::exception_ptr error);
  void rethrow_failure() const;

  std::vector<std::vector<Snapshot>> snapshots;  // by rank; each rank writes its own

 private:
  friend class RecordingTransport;
  struct Mail {
    std::size_t message = 0;  // index
    std::size_t slot = 0;     // step in which the sender had a turn for it
  };

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<RecordedMessage> messages_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Mail>> mail_;  // (from, to)
  std::exception_ptr failure_;
};

// One rank's end. Its clock counts steps: a wait takes as many as it has sends or receives, and
// ends no earlier than the messages that it waits for.
class RecordingTransport final : public Transport {
 public:
  // `hosts` by rank. Snapshots are of `vector`, the memory that the collective works in. Keeps
  // references.
  RecordingTransport(Recorder& recorder, std::size_t rank, const std::vector<std::string>& hosts,
                     std::span<const std::byte> vector);

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(hosts_.size()); }
  std::string_view backend() const override { return "simulation"; }
  int world_rank(int rank) const override { return rank; }
  const std::string& host(int rank) const override {
    return hosts_[static_cast<std::size_t>(rank)];
  }
  std::vector<std::byte> gather_control(std::span<const std::byte> mine) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                      const std::string& group) override;

  // The state after the last step; earlier ones are taken as the next step begins.
  void take_snapshot();

 private:
  struct Receive {
    std::span<std::byte> data;
    std::size_t from = 0;
  };

  void do_check() override {}
  void do_publish() override {}
  void do_send(std::span<const std::byte> data, int to, int tag) override;
  void do_receive(std::span<std::byte> data, int from, int tag) override;
  void do_wait() override;

  Recorder& recorder_;
  std::size_t rank_;
  const std::vector<std::string>& hosts_;
  std::span<const std::byte> vector_;
  std::size_t clock_ = 0;
  std::size_t sends_ = 0;  // since the last wait
  std::vector<Receive> receives_;
};

}  // namespace nqd::collectives
