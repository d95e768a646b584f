#include "planner/communication.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/units.h"
#include "planner/fabric.h"
#include "planner/memory.h"
#include "planner/pipeline.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

// Calls of one collective with one payload, in elements of the full vector.
struct Call {
  Collective collective = Collective::kAllReduce;
  double elements = 0;
  double element_bytes = 0;
  double repeats = 1;
};

struct Row {
  GroupTraffic traffic;
  bool in_micro_batches = false;
};

// Bytes that the busiest rank of the group sends in all the calls together: chunks differ by an
// element, so that the busiest of one call need not be the busiest of all. The calls are of one
// collective and element; the layers of a model are alike, so that few payloads differ.
double busiest_rank_bytes(const Group& group, const std::vector<Call>& calls) {
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
          collective, priced_algorithm(collective), ranks, rank,
          static_cast<std::size_t>(std::llround(elements)), element_bytes);
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

// Collects the rows of one stage.
class StageTraffic {
 public:
  StageTraffic(const Config& config, const StageLayout& stage, const MicroBatchTime& compute,
               CommunicationPlan& plan)
      : config_(config), stage_(stage), compute_(compute), plan_(plan) {}

  std::vector<Row> rows() {
    add_data_parallel();
    add_tensor_parallel();
    add_pipeline();
    add_control();
    return std::move(rows_);
  }

 private:
  double m() const { return static_cast<double>(micro_batches_of(config_)); }

  // b·s·h of one micro-batch.
  double boundary_elements() const {
    return static_cast<double>(config_.train.micro_batch_size * config_.model.sequence *
                               config_.model.hidden);
  }

  double seconds(const Group& group, const Call& call) {
    const double bytes = call.elements * call.element_bytes;
    const CallTime time = call_time(config_.cluster, group, call.collective, bytes);
    if (!time.known) report_unknown_link(group);
    if (time.extrapolated) report_extrapolation(group, call.collective, bytes);
    return time.seconds;
  }

  double seconds(const Group& group, const std::vector<Call>& calls) {
    double sum = 0;
    for (const Call& call : calls) sum += call.repeats * seconds(group, call);
    return sum;
  }

  void report_once(Diagnostic diagnostic) {
    for (const Diagnostic& known : plan_.diagnostics) {
      if (known.code == diagnostic.code && known.path == diagnostic.path) return;
    }
    plan_.diagnostics.push_back(std::move(diagnostic));
  }

  void report_unknown_link(const Group& group) {
    plan_.times_known = false;
    const std::string link = inside_node(config_.cluster, group) ? "intra_node" : "inter_node";
    Diagnostic note;
    note.code = "NQD1306";
    note.severity = Severity::kNote;
    note.path = "cluster." + link;
    note.message = "the step time is unknown, because group " + group.name +
                   " communicates over cluster." + link + ", whose bandwidth is not given";
    note.hint = "set cluster." + link + ", or measure it: `nqd bench`, `nqd calibrate`";
    report_once(std::move(note));
  }

  void report_extrapolation(const Group& group, Collective collective, double bytes) {
    Diagnostic warning;
    warning.code = "NQD1305";
    warning.severity = Severity::kWarning;
    warning.path = "cluster";
    warning.message = "the calibrated " + std::string(name(collective)) + " curve for " +
                      std::to_string(group.size) + " ranks was not measured at " +
                      format_bytes(bytes) + ": its nearest piece is extrapolated";
    warning.hint = "widen the sweep of `nqd bench " + std::string(name(collective)) +
                   "` to hold that size, and calibrate again";
    report_once(std::move(warning));
  }

  // `repeats` times all of `calls`; `exposed_s` is the whole step's.
  void add_row(const Group& group, const std::vector<Call>& calls, double repeats, double time_s,
               double exposed_s, bool in_micro_batches) {
    if (group.size <= 1 || calls.empty() || repeats <= 0) return;
    GroupTraffic traffic;
    traffic.group = group.name;
    traffic.collective = name(calls.front().collective);
    traffic.algorithm = name(priced_algorithm(calls.front().collective));
    traffic.calls = repeats * total_calls(calls);
    traffic.bytes_sent_per_rank = repeats * busiest_rank_bytes(group, calls);
    traffic.time_s = repeats * time_s;
    traffic.exposed_s = exposed_s;
    traffic.time_known = call_time(config_.cluster, group, calls.front().collective, 0).known;
    rows_.push_back({traffic, in_micro_batches});
  }

  void add_data_parallel() {
    if (config_.parallel.dp <= 1) return;
    switch (config_.parallel.engine) {
      case Engine::kDdp:
        return add_bucketed(Collective::kAllReduce, 1);
      case Engine::kZero1:
        add_bucketed(Collective::kReduceScatter, 1);
        return add_weight_gather();
      case Engine::kZero2:
        add_bucketed(Collective::kReduceScatter, m());
        return add_weight_gather();
      case Engine::kZero3:
        return add_sharded_units(dp_group(config_.parallel));
      case Engine::kHsdp:
        return add_hybrid();
    }
  }

  // Bucket i is ready once backward has passed the elements from its begin on.
  void add_bucketed(Collective collective, double repeats) {
    const Group group = dp_group(config_.parallel);
    const auto bytes = static_cast<double>(gradient_bytes(config_.train));
    std::vector<Call> calls;
    std::vector<CallRun> runs;
    for (const BucketRun& run : stage_buckets(config_, stage_)) {
      const auto count = static_cast<double>(run.count);
      const auto buckets = static_cast<double>(run.buckets);
      const double last = 1 - static_cast<double>(run.begin) / stage_.parameters;
      const double first = last - (buckets - 1) * count / stage_.parameters;
      calls.push_back({collective, count, bytes, buckets});
      runs.push_back({first, last, buckets, seconds(group, calls.back())});
    }
    add_row(group, calls, repeats, seconds(group, calls),
            repeats * exposed_seconds(runs, compute_.backward_s), repeats > 1);
  }

  // Updated weights, after the optimizer: nothing is left to hide behind.
  void add_weight_gather() {
    const Group group = dp_group(config_.parallel);
    const auto bytes = static_cast<double>(weight_bytes(config_.train));
    std::vector<Call> calls;
    for (const BucketRun& run : stage_buckets(config_, stage_)) {
      calls.push_back({Collective::kAllGather, static_cast<double>(run.count), bytes,
                       static_cast<double>(run.buckets)});
    }
    const double time = seconds(group, calls);
    add_row(group, calls, 1, time, time, false);
  }

  // A "state" model is one unit: it has no inner boundaries that we know of.
  std::vector<double> units() const {
    return stage_.units.empty() ? std::vector<double>{stage_.parameters} : stage_.units;
  }

  // The first gather of forward and the last reduction of backward stand alone; the rest hide
  // behind the compute of their pass as far as it lasts. Backward gathers and reduces over one
  // network; what sticks out there is booked on the reductions, which come last, as far as they
  // last, and the rest on the gathers that held them up.
  void add_sharded_units(const Group& group) {
    std::vector<Call> gathers;
    std::vector<Call> reductions;
    for (double elements : units()) {
      gathers.push_back(
          {Collective::kAllGather, elements, static_cast<double>(weight_bytes(config_.train))});
      reductions.push_back({Collective::kReduceScatter, elements,
                            static_cast<double>(gradient_bytes(config_.train))});
    }
    const double gather = seconds(group, gathers);
    const double reduce = seconds(group, reductions);
    const double alone = seconds(group, gathers.front());
    const double forward = alone + std::max(0.0, gather - alone - compute_.forward_s);
    const double last = seconds(group, reductions.front());
    const double backward = last + std::max(0.0, gather + reduce - last - compute_.backward_s);
    const double reduce_exposed = std::min(reduce, backward);
    const double gather_exposed = std::min(2 * gather, forward + backward - reduce_exposed);
    add_row(group, gathers, 2 * m(), gather, m() * gather_exposed, true);
    add_row(group, reductions, m(), reduce, m() * reduce_exposed, true);
  }

  void add_hybrid() {
    const std::int64_t shard = hsdp_shard_ranks(config_);
    Group inner = dp_group(config_.parallel);
    Group outer = inner;
    inner.name = "dp_shard";
    inner.size = shard;
    outer.name = "dp_replicate";
    outer.size = config_.parallel.dp / shard;
    outer.stride = inner.stride * shard;
    add_sharded_units(inner);
    if (outer.size <= 1) return;
    std::vector<Call> calls;
    std::vector<CallRun> runs;
    double done = 0;
    const std::vector<double> forward_units = units();
    for (auto unit = forward_units.rbegin(); unit != forward_units.rend(); ++unit) {
      done += *unit;
      calls.push_back({Collective::kAllReduce, std::ceil(*unit / static_cast<double>(shard)),
                       static_cast<double>(gradient_bytes(config_.train))});
      const double ready = done / stage_.parameters;
      runs.push_back({ready, ready, 1, seconds(outer, calls.back())});
    }
    add_row(outer, calls, 1, seconds(outer, calls), exposed_seconds(runs, compute_.backward_s),
            false);
  }

  void add_tensor_parallel() {
    const Group group = tp_group(config_.parallel);
    if (group.size <= 1 || stage_.tensors.empty()) return;
    const double a_layer = config_.train.recompute == Recompute::kFull ? 6 : 4;
    const double sums = a_layer * static_cast<double>(stage_.layers) + (stage_.first ? 1 : 0) +
                        (stage_.last ? 1 : 0);
    Call call{Collective::kAllReduce, boundary_elements(),
              static_cast<double>(weight_bytes(config_.train))};
    if (!config_.parallel.sequence_parallel) {
      const double time = seconds(group, call);
      return add_row(group, {call}, m() * sums, time, m() * sums * time, true);
    }
    // The inputs that backward gathers again arrive while the gradient of the input is computed.
    const double again = 2.0 * static_cast<double>(stage_.layers);
    call.collective = Collective::kAllGather;
    const double gather = seconds(group, call);
    add_row(group, {call}, m() * (sums + again), gather, m() * sums * gather, true);
    call.collective = Collective::kReduceScatter;
    const double scatter = seconds(group, call);
    add_row(group, {call}, m() * sums, scatter, m() * sums * scatter, true);
  }

  // Sends of the busiest stage: an inner stage forward and back for each of its v chunks; the chunk
  // at either end of the model has one neighbour only.
  void add_pipeline() {
    const Group group = pp_group(config_.parallel);
    if (group.size <= 1 || stage_.tensors.empty()) return;
    const std::int64_t v = virtual_stages(config_.parallel);
    const double sends = static_cast<double>(2 * v - (stage_.first || stage_.last ? 1 : 0));
    double elements = boundary_elements();
    if (config_.parallel.sequence_parallel) {
      elements = std::ceil(elements / static_cast<double>(config_.parallel.tp));
    }
    const Call call{Collective::kSendRecv, elements,
                    static_cast<double>(weight_bytes(config_.train))};
    const double time = seconds(group, call);
    add_row(group, {call}, m() * sends, time, m() * sends * time, true);
    if (config_.model.tied_head && (stage_.first || stage_.last)) add_tied_embedding();
  }

  void add_tied_embedding() {
    const ParallelSpec& parallel = config_.parallel;
    const Group group{"embedding", 2, parallel.tp * (parallel.pp - 1)};
    const TensorSpec& token = stage_.first ? stage_.tensors.front() : stage_.tensors.back();
    const Call call{Collective::kAllReduce, static_cast<double>(token.elements()),
                    static_cast<double>(gradient_bytes(config_.train))};
    const double time = seconds(group, call);
    add_row(group, {call}, 1, time, time, false);
  }

  void add_control() {
    if (!runs_on_cpu_engine(config_)) return;
    Group group = dp_group(config_.parallel);
    const Call call{Collective::kAllReduce, 2, 8};
    // 16 bytes lie below any measured size, where a curve is its α: not worth a warning.
    const double time = call_time(config_.cluster, group, call.collective, 16).seconds;
    group.name = "control";
    add_row(group, {call}, 1, time, time, false);
  }

  const Config& config_;
  const StageLayout& stage_;
  const MicroBatchTime& compute_;
  CommunicationPlan& plan_;
  std::vector<Row> rows_;
};

void keep_larger(std::vector<Row>& all, const Row& row) {
  for (Row& known : all) {
    GroupTraffic& most = known.traffic;
    if (most.group != row.traffic.group || most.collective != row.traffic.collective) continue;
    most.calls = std::max(most.calls, row.traffic.calls);
    most.bytes_sent_per_rank = std::max(most.bytes_sent_per_rank, row.traffic.bytes_sent_per_rank);
    most.time_s = std::max(most.time_s, row.traffic.time_s);
    most.exposed_s = std::max(most.exposed_s, row.traffic.exposed_s);
    most.time_known = most.time_known && row.traffic.time_known;
    return;
  }
  all.push_back(row);
}

}  // namespace

double exposed_seconds(const std::vector<CallRun>& runs, double compute_s) {
  double free_at = 0;
  double all_s = 0;
  for (const CallRun& run : runs) {
    const double run_s = run.calls * run.seconds;
    // In between, readiness grows evenly: either the first or the last call of a run is waited for.
    free_at = std::max({free_at + run_s, run.first_ready * compute_s + run_s,
                        run.last_ready * compute_s + run.seconds});
    all_s += run_s;
  }
  return std::clamp(free_at - compute_s, 0.0, all_s);
}

std::vector<BucketRun> stage_buckets(const Config& config, const StageLayout& stage) {
  const std::int64_t bytes = gradient_bytes(config.train);
  std::vector<BucketRun> runs;
  if (!stage.tensors.empty()) {
    for (const Bucket& bucket : gradient_buckets(stage.tensors, config.train.bucket_bytes, bytes)) {
      runs.push_back({bucket.begin, bucket.count, 1});
    }
    return runs;
  }
  const std::int64_t elements = std::max<std::int64_t>(std::llround(stage.parameters), 1);
  const std::int64_t most = std::max<std::int64_t>(config.train.bucket_bytes / bytes, 1);
  const std::int64_t buckets = (elements - 1) / most + 1;
  // Cut as evenly as whole elements allow, the longer buckets at the front of the arena.
  const std::int64_t count = elements / buckets;
  const std::int64_t longer = elements % buckets;
  runs.push_back({longer * (count + 1), count, buckets - longer});
  if (longer > 0) runs.push_back({0, count + 1, longer});
  return runs;
}

std::uint64_t ddp_bytes_sent(const Config& config, std::int64_t rank) {
  const StageLayout stage = stage_layouts(config).front();
  std::uint64_t sent = 0;
  for (const BucketRun& run : stage_buckets(config, stage)) {
    const collectives::RankTraffic one = collectives::rank_traffic(
        Collective::kAllReduce, Algorithm::kRing, static_cast<std::size_t>(config.parallel.dp),
        static_cast<std::size_t>(rank), static_cast<std::size_t>(run.count),
        static_cast<std::size_t>(gradient_bytes(config.train)));
    sent += static_cast<std::uint64_t>(run.buckets) * one.bytes_sent;
  }
  return sent;
}

collectives::RankTraffic control_traffic(std::int64_t ranks, std::int64_t rank) {
  return collectives::rank_traffic(Collective::kAllReduce, Algorithm::kRing,
                                   static_cast<std::size_t>(ranks), static_cast<std::size_t>(rank),
                                   2, 8);
}

CommunicationPlan plan_communication(const Config& config, const MicroBatchTime& compute) {
  CommunicationPlan plan;
  std::vector<Row> rows;
  for (const StageLayout& stage : stage_layouts(config)) {
    for (const Row& row : StageTraffic(config, stage, compute, plan).rows()) {
      keep_larger(rows, row);
    }
  }
  for (const Row& row : rows) {
    (row.in_micro_batches ? plan.exposed_in_micro_batches_s : plan.exposed_once_s) +=
        row.traffic.exposed_s;
    plan.traffic.push_back(row.traffic);
  }
  return plan;
}

}  // namespace nqd::planner
