// The collective calls of one rank of nqd's own engine, counted as the transports count them: which
// algorithm runs, what the rank sends, and the scratch that its communicator keeps for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/dtype.h"
#include "collectives/types.h"
#include "planner/layout/state_traffic.h"
#include "planner/mesh/fabric.h"
#include "planner/spec.h"

namespace nqd::planner {

// A communicator of the rank.
struct RankGroup {
  Group group;
  std::int64_t rank = 0;  // of its ranks
  bool reaches_memory = false;
};
RankGroup rank_group(const Config& config, Group group, std::int64_t rank);

// All calls of one step with equal group and collective.
struct CallRow {
  std::string group;
  collectives::Collective collective = collectives::Collective::kAllReduce;
  collectives::Algorithm algorithm = collectives::Algorithm::kAuto;  // of the longest vector
  std::int64_t calls = 0;
  std::uint64_t bytes_sent = 0;
  double time_s = 0;
  double exposed_s = 0;           // not hidden behind compute; at most time_s
  bool in_micro_batches = false;  // what is exposed repeats with every micro-batch
  bool time_known = true;
  std::uint64_t longest_bytes = 0;
};

// What a communicator keeps from call to call. (What the exchange of partial sums needs is among
// the buffers of planner/layout/state_buffers.h.)
struct GroupScratch {
  std::string group;
  std::uint64_t bytes = 0;
};

class CallTally {
 public:
  explicit CallTally(const Config& config) : config_(config) {}

  // `repeats` calls on a full vector of `count` elements, in shared buffers and in place. Nothing
  // for a group of one rank, and for an empty vector. Returns the seconds of one call.
  double add(const RankGroup& group, collectives::Collective collective, std::int64_t count,
             DType type, std::int64_t repeats = 1);
  // The calls that planner/layout/state_traffic.h lists, likewise.
  double add(const RankGroup& group, const StateCall& call);
  // `repeats` messages of `bytes` to another rank of the group.
  double add_sends(const RankGroup& group, std::uint64_t bytes, std::int64_t repeats);

  // Of the row that the calls are in.
  void expose(const RankGroup& group, collectives::Collective collective, double seconds,
              bool in_micro_batches);
  // Nothing hides behind compute in any row of the group.
  void expose_all(std::string_view group, bool in_micro_batches);

  const std::vector<CallRow>& rows() const { return rows_; }
  const std::vector<GroupScratch>& scratch() const { return scratch_; }
  // NQD1305, NQD1306: what pricing the calls brought up, once each.
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  struct Sent {
    collectives::Collective collective;
    collectives::Algorithm algorithm;
    std::uint64_t payload = 0;  // bytes of the full vector
    std::uint64_t bytes = 0;    // sent by the rank in all the calls
    std::int64_t calls = 0;
  };
  double book(const RankGroup& group, const Sent& sent);
  CallRow& row_of(const RankGroup& group, collectives::Collective collective);
  void need_scratch(const RankGroup& group, const Sent& sent, std::size_t element_bytes);

  const Config& config_;
  std::vector<CallRow> rows_;
  std::vector<GroupScratch> scratch_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace nqd::planner
