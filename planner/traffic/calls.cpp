#include "planner/traffic/calls.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "collectives/cost.h"

namespace nqd::planner {

using collectives::Collective;

namespace {

// Bytes that the busiest rank of the group sends in all the calls together: chunks differ by an
// element, so that the busiest of one call need not be the busiest of all. The calls are of one
// collective and element; the layers of a model are alike, so that few payloads differ.
double busiest_rank_bytes(const Group& group, const std::vector<Call>& calls,
                          collectives::Algorithm algorithm) {
  std::map<double, double> repeats;
  for (const Call& call : calls) repeats[call.elements] += call.repeats;
  const Collective collective = calls.front().collective;
  const auto element_bytes = static_cast<std::size_t>(calls.front().element_bytes);
  const auto ranks = static_cast<std::size_t>(group.size);
  double most = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    double sent = 0;
    for (const auto& [elements, times] : repeats) {
      const collectives::RankTraffic one = collectives::rank_traffic(
          collective, algorithm, ranks, rank, static_cast<std::size_t>(std::llround(elements)),
          element_bytes);
      sent += times * static_cast<double>(one.bytes_sent);
    }
    most = std::max(most, sent);
  }
  return most;
}

double total_calls(const std::vector<Call>& calls) {
  return std::accumulate(calls.begin(), calls.end(), 0.0,
                         [](double sum, const Call& call) { return sum + call.repeats; });
}

}  // namespace

void add_once(const Diagnostic& diagnostic, std::vector<Diagnostic>& all) {
  for (const Diagnostic& known : all) {
    if (known.code == diagnostic.code && known.path == diagnostic.path) return;
  }
  all.push_back(diagnostic);
}

Diagnostic unknown_link(const ClusterSpec& cluster, const Group& group) {
  const std::string link = inside_node(cluster, group) ? "intra_node" : "inter_node";
  Diagnostic note;
  note.code = "NQD1306";
  note.severity = Severity::kNote;
  note.path = "cluster." + link;
  note.message = "the step time is unknown, because group " + group.name +
                 " communicates over cluster." + link + ", whose bandwidth is not given";
  note.hint = "set cluster." + link + ", or measure it: `nqd bench`, `nqd calibrate`";
  return note;
}

Diagnostic extrapolated_curve(const Group& group, Collective collective, double bytes) {
  Diagnostic warning;
  warning.code = "NQD1305";
  warning.severity = Severity::kWarning;
  warning.path = "cluster";
  warning.message = "the calibrated " + std::string(name(collective)) + " curve for " +
                    std::to_string(group.size) + " ranks was not measured at " +
                    format_bytes(bytes) + ": its nearest piece is extrapolated";
  warning.hint = "widen the sweep of `nqd bench " + std::string(name(collective)) +
                 "` to hold that size, and calibrate again";
  return warning;
}

double TrafficRows::seconds(const Group& group, const Call& call) {
  const double bytes = call.elements * call.element_bytes;
  const CallTime time =
      call_time(cluster_, group, call.collective, priced_algorithm(call.collective), bytes);
  if (!time.known) {
    plan_.times_known = false;
    add_once(unknown_link(cluster_, group), plan_.diagnostics);
  }
  if (time.extrapolated) {
    add_once(extrapolated_curve(group, call.collective, bytes), plan_.diagnostics);
  }
  return time.seconds;
}

double TrafficRows::seconds(const Group& group, const std::vector<Call>& calls) {
  double sum = 0;
  for (const Call& call : calls) sum += call.repeats * seconds(group, call);
  return sum;
}

void TrafficRows::add(const Group& group, const std::vector<Call>& calls, double repeats,
                      double time_s, double exposed_s, bool in_micro_batches) {
  if (group.size <= 1 || calls.empty() || repeats <= 0) return;
  GroupTraffic traffic;
  traffic.group = group.name;
  traffic.collective = name(calls.front().collective);
  const collectives::Algorithm ran = priced_algorithm(calls.front().collective);
  traffic.algorithm = name(ran);
  traffic.calls = repeats * total_calls(calls);
  traffic.bytes_sent_per_rank = repeats * busiest_rank_bytes(group, calls, ran);
  traffic.time_s = repeats * time_s;
  traffic.exposed_s = exposed_s;
  traffic.time_known = call_time(cluster_, group, calls.front().collective, ran, 0).known;
  rows_.push_back({traffic, in_micro_batches});
}

}  // namespace nqd::planner
