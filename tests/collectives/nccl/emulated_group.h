// The ranks of one emulated communicator: where their calls meet.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/nccl/nccl_api.h"

namespace nqd::collectives::emulated {

struct Operation {
  Collective kind = Collective::kAllReduce;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  DType type = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;  // of kSendRecv: the peer
  std::size_t bytes() const { return count * size_bytes(type); }
  bool fits(const Operation& other) const {
    return kind == other.kind && count == other.count && type == other.type && op == other.op &&
           root == other.root;
  }
};

// One collective of all ranks.
struct Encounter {
  std::vector<Operation> given;
  int arrived = 0;
  int read = 0;
  int left = 0;
};

struct Mail {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool taken = false;
};

struct Split;

struct Group {
  explicit Group(int ranks) : size(ranks), failures(static_cast<std::size_t>(ranks)) {}

  // What stream threads do: the operations of one launch.
  void run(int rank, std::uint64_t& sequence, const std::vector<Operation>& operations);
  void fail(int rank, NcclResult result);

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  bool aborted = false;
  int reading = 0;  // ranks that read the others' memory now; an abort waits for them
  std::vector<NcclResult> failures;
  std::map<std::uint64_t, Encounter> encounters;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Mail>>> mail;  // from, to
  std::map<std::uint64_t, std::shared_ptr<Split>> splits;

 private:
  void meet(int rank, std::uint64_t sequence, const Operation& operation);
  void exchange(int rank, const std::vector<Operation>& messages);
  // False: the group was aborted before.
  template <typename Holds>
  bool await(std::unique_lock<std::mutex>& lock, Holds holds) {
    changed.wait(lock, [&] { return aborted || holds(); });
    return !aborted;
  }
};

// A split of a group on its way: the colors and keys of those that have come.
struct Split {
  std::vector<std::optional<std::pair<int, int>>> choices;
  int arrived = 0;
  std::map<int, std::shared_ptr<Group>> parts;
  std::map<int, int> rank_in_part;  // by rank of the parent
  void resolve();
};

}  // namespace nqd::collectives::emulated
