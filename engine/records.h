// What a training run measured: plain records that reports/ writes as evidence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/device/uncounted_memory.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

struct StepRecord {
  std::int64_t step = 0;    // 1-based
  double loss = 0;          // mean over the global batch's targets, before the update
  std::int64_t tokens = 0;  // time steps of an encoder, which has one target a sample of them
  double step_s = 0;        // maximum over ranks
  double grad_norm = 0;     // before clipping
  bool skipped = false;     // loss or gradients were not finite, or a spike: no update
  double lr = 0;
  // Rank 0: time waiting for gradients and weights of other ranks; on a GPU whose messages are
  // ordered by streams, how long its compute stream stood still for them.
  double exposed_communication_s = 0;
  // Rank 0: of step_s, what its host was at work and waited neither for the device nor for other
  // ranks; nothing where the host is the device.
  std::optional<double> host_s{};
};

// Steps whose passes a device repeated from a recording (Device::repeat).
struct StepGraphRecord {
  std::int64_t steps = 0;
  std::string reason;  // a clause: why the others, or all, were asked for one operation at a time
};

struct EvalRecord {
  std::int64_t step = 0;  // after this many steps; 0 = before training
  double loss = 0;        // mean over the held-out targets seen
  std::int64_t tokens = 0;
};

// One line of the audit. Bytes rows have unit "bytes", time rows "s". `exact` rows must have
// ratio 1. A ratio of nothing (predicted and measured both 0) is 1.
struct AuditRow {
  std::string category;  // "weights", "dp.all_reduce", "step_time", "resident_growth", …
  std::string kind;      // "persistent", "transient", "communicated", "time", "witness", "replicas"
  std::string unit;      // "bytes", "s", "ranks"
  double predicted = 0;
  double measured = 0;
  double ratio = 1;  // measured ÷ predicted
  bool exact = false;
  double allowance = 0;  // kind "witness": what measured may exceed 1.05 × predicted by
  bool ok = true;
  std::string note;  // what the measurement is, where it came from
};

// What one rank sent during the run, as its transport counted it.
struct TrafficRecord {
  int rank = 0;
  std::string group;       // "dp", "control"
  std::string collective;  // "all_reduce"
  std::uint64_t calls = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes_sent = 0;
};

struct RankIdentity {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string device = "cpu";
  std::string launcher;
};

struct FaultRecord {
  std::string code;
  std::string message;
  int lost_rank = -1;
  std::string lost_host;
  std::int64_t at_step = 0;
  double detected_s = 0;  // since the run began
};

// A run that went wrong went back to a generation, and on without the batches that it had read
// since (engine/train/roll_back.h).
struct RollBackRecord {
  std::int64_t at_step = 0;  // the last one before
  std::int64_t to_step = 0;  // of the generation; the step behind it is made again
  std::string generation;
  std::int64_t skipped_batches = 0;
  std::string reason;  // a clause: "the loss is not finite, …"
};

// A rank that began to be slower than those that do the same work (engine/train/stragglers.h).
struct StragglerRecord {
  std::int64_t step = 0;  // the last of the window
  int rank = 0;
  std::string host;
  std::string phase;    // "data", "forward", "backward", "update"
  double seconds = 0;   // of it, a step
  double median_s = 0;  // of the others, or of the rank's own first window
  double score = 0;     // robust standard deviations above that
};

// A generation that the run saved (engine/checkpoint/generations.h).
struct CheckpointRecord {
  std::int64_t step = 0;
  std::string generation;
  std::int64_t bytes = 0;           // of the state, all ranks together
  double stall_s = 0;               // that training stood still
  double write_s = 0;               // from the step to a generation that counts
  std::optional<double> durable_s;  // and to a copy that counts; nothing without one
};

struct TrainResult {
  // The plan that ran, where the ranks turned out not to share memory as the given one assumed.
  std::optional<planner::Plan> replanned;
  std::vector<StepRecord> steps;  // ascending; not those that a roll-back undid
  std::vector<EvalRecord> evals;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<RollBackRecord> roll_backs;
  std::vector<StragglerRecord> stragglers;
  std::int64_t resumed_after = 0;  // the step of the generation that the run went on from; 0: none
  std::string resumed_from;        // its folder
  bool stopped = false;            // on request, before its last step
  std::vector<AuditRow> audit;
  bool audit_ok = true;
  std::vector<TrafficRecord> traffic;
  double tokens_per_s = 0;  // median over steps after the first
  double mfu = 0;           // 0 = peak unknown
  // Gradient noise scale (critical batch) in sequences, over every eighth step
  // (engine/numerics/noise_scale.h); empty where a step has one micro-batch or it does not show.
  std::optional<double> noise_scale;
  std::int64_t parameters = 0;
  std::int64_t skipped_steps = 0;
  std::string data_digest;      // SHA-256 of the dataset; known on the rank that verified it
  bool data_synthetic = false;  // made up by a generator of nqd
  std::string weights_sha256;  // of the final float32 weights, all tensors whole: equal on any mesh
  std::string gemm_library;
  std::string gemm_core;
  // On a GPU: Device::attention_library at the end of the run.
  std::string attention_library;
  // Of rank 0; nothing where the host computes.
  std::optional<StepGraphRecord> step_graph;
  std::optional<UncountedMemory> uncounted_memory;
  std::string backend;  // of messages between devices: "local", "mpi", "nccl"
  std::vector<RankIdentity> ranks;
  std::optional<FaultRecord> fault;
};

}  // namespace nqd::engine
