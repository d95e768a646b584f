// Rows of plan_communication: equal or similar calls of one collective within one group.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "collectives/types.h"
#include "planner/mesh/fabric.h"
#include "planner/plan/communication.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// Calls of one collective with one payload, in elements of the full vector.
struct Call {
  collectives::Collective collective = collectives::Collective::kAllReduce;
  double elements = 0;
  double element_bytes = 0;
  double repeats = 1;
};

struct TrafficRow {
  GroupTraffic traffic;
  bool in_micro_batches = false;
};

// What pricing a call brings up: a link without bandwidth (NQD1306), a curve used beyond its
// measured sizes (NQD1305).
Diagnostic unknown_link(const ClusterSpec& cluster, const Group& group);
Diagnostic extrapolated_curve(const Group& group, collectives::Collective collective, double bytes);
// Nothing where one of the same code and path is there.
void add_once(const Diagnostic& diagnostic, std::vector<Diagnostic>& all);

// Collects rows, and once each the diagnostics NQD1305 and NQD1306 that pricing them brings up.
class TrafficRows {
 public:
  TrafficRows(const ClusterSpec& cluster, CommunicationPlan& plan)
      : cluster_(cluster), plan_(plan) {}

  double seconds(const Group& group, const Call& call);
  double seconds(const Group& group, const std::vector<Call>& calls);
  // `repeats` times all of `calls`, which take time_s once; exposed_s is the whole step's. Nothing
  // for a group of one rank.
  void add(const Group& group, const std::vector<Call>& calls, double repeats, double time_s,
           double exposed_s, bool in_micro_batches);
  std::vector<TrafficRow>& rows() { return rows_; }

 private:
  const ClusterSpec& cluster_;
  CommunicationPlan& plan_;
  std::vector<TrafficRow> rows_;
};

}  // namespace nqd::planner
