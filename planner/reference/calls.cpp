#include "planner/reference/calls.h"

#include <algorithm>

#include "collectives/cost.h"
#include "collectives/cost_scratch.h"
#include "planner/layout/engine_algorithm.h"
#include "planner/traffic/calls.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

std::size_t unsigned_of(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

RankGroup rank_group(const Config& config, Group group, std::int64_t rank) {
  const bool reaches = config.cluster.ranks_share_memory && inside_node(config.cluster, group);
  return {std::move(group), rank, reaches};
}

double CallTally::add(const RankGroup& group, Collective collective, std::int64_t count, DType type,
                      std::int64_t repeats) {
  const std::int64_t ranks = group.group.size;
  if (ranks <= 1 || count == 0 || repeats == 0) return 0;
  const std::size_t element = size_bytes(type);
  const std::uint64_t payload = unsigned_of(count) * element;
  const Algorithm algorithm = engine_algorithm(config_.numerics.mode, collective, ranks, payload,
                                               type, group.reaches_memory);
  const collectives::RankTraffic one =
      collectives::rank_traffic(collective, algorithm, unsigned_of(ranks), unsigned_of(group.rank),
                                unsigned_of(count), element);
  const Sent sent{collective, algorithm, payload, unsigned_of(repeats) * one.bytes_sent, repeats};
  need_scratch(group, sent, element);
  return book(group, sent);
}

double CallTally::add(const RankGroup& group, const StateCall& call) {
  const std::size_t element = size_bytes(call.type);
  const Sent sent{call.collective, call.algorithm, unsigned_of(call.elements) * element,
                  call.sent.bytes_sent, call.calls};
  need_scratch(group, sent, element);
  return book(group, sent);
}

double CallTally::add_sends(const RankGroup& group, std::uint64_t bytes, std::int64_t repeats) {
  if (repeats == 0) return 0;
  return book(group, {Collective::kSendRecv, Algorithm::kAuto, bytes,
                      static_cast<std::uint64_t>(repeats) * bytes, repeats});
}

double CallTally::book(const RankGroup& group, const Sent& sent) {
  const CallTime time = call_time(config_.cluster, group.group, sent.collective, sent.algorithm,
                                  static_cast<double>(sent.payload));
  if (!time.known) add_once(unknown_link(config_.cluster, group.group), diagnostics_);
  if (time.extrapolated) {
    add_once(extrapolated_curve(group.group, sent.collective, static_cast<double>(sent.payload)),
             diagnostics_);
  }
  CallRow& row = row_of(group, sent.collective);
  row.calls += sent.calls;
  row.bytes_sent += sent.bytes;
  row.time_s += static_cast<double>(sent.calls) * time.seconds;
  row.time_known = row.time_known && time.known;
  if (sent.payload > row.longest_bytes) {
    row.longest_bytes = sent.payload;
    row.algorithm = sent.algorithm;
  }
  return time.seconds;
}

void CallTally::expose(const RankGroup& group, Collective collective, double seconds,
                       bool in_micro_batches) {
  if (seconds <= 0) return;
  CallRow& row = row_of(group, collective);
  row.exposed_s = std::min(row.time_s, row.exposed_s + seconds);
  row.in_micro_batches = in_micro_batches;
}

void CallTally::expose_all(std::string_view group, bool in_micro_batches) {
  for (CallRow& row : rows_) {
    if (row.group != group) continue;
    row.exposed_s = row.time_s;
    row.in_micro_batches = in_micro_batches;
  }
}

CallRow& CallTally::row_of(const RankGroup& group, Collective collective) {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const CallRow& known) {
    return known.group == group.group.name && known.collective == collective;
  });
  if (row != rows_.end()) return *row;
  return rows_.emplace_back(CallRow{.group = group.group.name, .collective = collective});
}

void CallTally::need_scratch(const RankGroup& group, const Sent& sent, std::size_t element_bytes) {
  const std::size_t bytes = collectives::scratch_bytes(
      sent.collective, sent.algorithm, unsigned_of(group.group.size), unsigned_of(group.rank),
      sent.payload / element_bytes, element_bytes);
  const std::string& name = group.group.name;
  auto known = std::find_if(scratch_.begin(), scratch_.end(),
                            [&](const GroupScratch& scratch) { return scratch.group == name; });
  if (known == scratch_.end()) known = scratch_.insert(scratch_.end(), GroupScratch{name, 0});
  known->bytes = std::max<std::uint64_t>(known->bytes, bytes);
}

}  // namespace nqd::planner
