#include "engine/trainer.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/ledger.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/audit.h"
#include "engine/batches.h"
#include "engine/gemm/gemm.h"
#include "engine/models/gpt.h"
#include "engine/optimizer/schedule.h"
#include "engine/optimizer/update.h"
#include "engine/parallel/ddp.h"
#include "planner/plan/communication.h"
#include "planner/plan/gradient_choice.h"
#include "planner/plan/memory.h"
#include "planner/planner.h"

namespace nqd::engine {
namespace {

using collectives::Algorithm;
using collectives::Communicator;
using collectives::ReduceOp;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Collective sum of a few doubles.
template <std::size_t N>
std::array<double, N> sum_over(Communicator& group, std::array<double, N> values) {
  const std::span<double> data(values);
  group.all_reduce(std::as_bytes(data), std::as_writable_bytes(data), DType::kFloat64,
                   ReduceOp::kSum, Algorithm::kRing);
  return values;
}

std::vector<RankIdentity> gather_identities(Communicator& world) {
  struct Entry {
    std::int64_t pid = 0;
    std::array<char, 120> host{};
  };
  Entry mine;
  mine.pid = ::getpid();
  const std::string& host = world.host(world.rank());
  std::memcpy(mine.host.data(), host.data(), std::min(host.size(), mine.host.size() - 1));
  std::vector<Entry> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  std::vector<RankIdentity> ranks;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ranks.push_back({static_cast<int>(i), all[i].host.data(), all[i].pid, "cpu", ""});
  }
  return ranks;
}

class Trainer {
 public:
  Trainer(Communicator& world, const planner::Plan& plan, const TrainingData& data,
          const TrainOptions& options, TrainResult& result)
      : world_(world),
        plan_(plan),
        config_(plan_.config),
        data_(data),
        options_(options),
        result_(result) {}

  void run() {
    join_groups();
    allocate();
    evaluate(0);
    for (std::int64_t step = 1; step <= config_.train.steps; ++step) {
      run_step(step);
      const std::int64_t every = config_.train.eval_every;
      if (step == config_.train.steps || (every > 0 && step % every == 0)) evaluate(step);
    }
    close_books();
  }

 private:
  void join_groups() {
    result_.backend = world_.backend();
    result_.data_digest = data_.digest;
    result_.ranks = gather_identities(world_);
    const GemmLibrary library = gemm_library();
    result_.gemm_library = library.name + " " + library.version;
    result_.gemm_core = library.core;
    dp_ = world_.split(0, world_.rank(), "dp");
    control_ = world_.split(0, world_.rank(), "control");
    dp_->set_ledger(&ledger_);
    control_->set_ledger(&ledger_);
    replan();
  }

  // The plan was made before it was known what starts the ranks and what they share.
  void replan() {
    planner::Config here = config_;
    here.cluster.ranks_share_memory &= dp_->size() == 1 || dp_->shares_memory();
    const planner::GradientChoice planned = planner::choose_gradient_algorithm(config_);
    const planner::GradientChoice choice =
        planner::choose_gradient_algorithm(here, world_.backend());
    if (choice.note && world_.rank() == 0 &&
        (!planned.note || choice.note->message != planned.note->message)) {
      log::info(choice.note->message);
    }
    if (choice.algorithm == planned.algorithm) return;
    std::erase_if(here.cluster.crossovers, [this](const planner::Crossovers& row) {
      return row.backend != world_.backend();
    });
    plan_ = planner::make_plan(here);
    result_.replanned = plan_;
  }

  void allocate() {
    // Memory that earlier work freed must not hide growth from the resident-set witness.
    ::malloc_trim(0);
    world_.barrier();
    resident_before_ = anonymous_resident_bytes();
    world_.barrier();
    model_ = std::make_unique<Gpt>(config_.model, config_.train.micro_batch_size, ledger_);
    model_->initialize(static_cast<std::uint64_t>(config_.train.seed));
    const std::size_t state_bytes = model_->weights().size_bytes();
    moment1_ = Buffer(&ledger_, MemoryTag::kMoments, state_bytes);
    moment2_ = Buffer(&ledger_, MemoryTag::kMoments, state_bytes);
    batch_ = std::make_unique<MicroBatch>(config_.train.micro_batch_size, config_.model.sequence,
                                          ledger_);
    reducer_ = std::make_unique<DdpReducer>(
        *dp_, model_->gradients(),
        planner::gradient_buckets(planner::parameters(config_.model), config_.train.bucket_bytes,
                                  sizeof(float)),
        planner::gradient_algorithm(config_));
    result_.parameters = static_cast<std::int64_t>(model_->weights().size());
    seed_faults();
  }

  void seed_faults() {
    const SeededFault& fault = options_.seeded;
    if (fault.extra_weights_bytes > 0) {
      seeded_tagged_ = Buffer(&ledger_, MemoryTag::kWeights, fault.extra_weights_bytes);
    }
    if (fault.untagged_bytes > 0) {
      seeded_untagged_ = Buffer(nullptr, MemoryTag::kWorkspace, fault.untagged_bytes);
    }
    if (fault.extra_control_sum) sum_over<1>(*control_, {0});
    if (fault.skip_bucket) reducer_->skip_bucket_for_test(*fault.skip_bucket);
  }

  void run_step(std::int64_t step) {
    const auto start = Clock::now();
    const planner::TrainSpec& train = config_.train;
    const double tokens_in_step =
        static_cast<double>(train.global_batch_size * config_.model.sequence);
    model_->zero_gradients();
    double loss_sum = 0;
    double exposed_s = 0;
    for (std::int64_t m = 0; m < config_.micro_batches(); ++m) {
      batch_->load_training(data_.train, data_.sampler, static_cast<std::uint64_t>(step - 1),
                            static_cast<std::uint64_t>(train.global_batch_size), dp_->rank(),
                            dp_->size(), m);
      loss_sum += model_->forward(batch_->tokens(), batch_->targets());
      // The mean is over the global batch's tokens, known beforehand: gradients only need a sum.
      const auto scale = static_cast<float>(1.0 / tokens_in_step);
      if (m + 1 < config_.micro_batches()) {
        model_->backward(scale);
      } else {
        reducer_->begin();
        model_->backward(scale, [this](std::int64_t from) { reducer_->ready(from); });
        exposed_s = reducer_->finish();
      }
    }
    const auto totals =
        sum_over<2>(*control_, {loss_sum, static_cast<double>(batch_->tokens().size()) *
                                              static_cast<double>(config_.micro_batches())});
    StepRecord record;
    record.step = step;
    record.tokens = static_cast<std::int64_t>(totals[1]);
    record.loss = totals[0] / totals[1];
    record.grad_norm = global_norm(model_->gradients());
    record.lr = learning_rate(train.optimizer, train.steps, step);
    record.exposed_communication_s = exposed_s;
    refuse_non_finite(record);
    const std::size_t count = model_->weights().size();
    update_parameters(*model_, {moment1_.as<float>(), count}, {moment2_.as<float>(), count},
                      train.optimizer, step, record.lr, record.grad_norm);
    record.step_s = seconds_since(start);
    result_.steps.push_back(record);
    if (options_.on_step) options_.on_step(record);
  }

  // Loss and gradients are equal on all ranks by now, so that all of them throw.
  void refuse_non_finite(const StepRecord& record) {
    if (std::isfinite(record.loss) && std::isfinite(record.grad_norm)) return;
    Error error(ExitCode::kFault, "NQD4006",
                "step " + std::to_string(record.step) + ": " +
                    (std::isfinite(record.loss) ? "the gradient norm" : "the loss") +
                    " is not finite; the weights of step " + std::to_string(record.step - 1) +
                    " were the last good ones",
                "lower train.optimizer.learning_rate, lengthen warmup_steps, or set grad_clip");
    error.set_quiet(world_.rank() != 0);
    throw error;
  }

  // The first eval_batches micro-batches of held-out text, each sample once, shared by the ranks.
  void evaluate(std::int64_t step) {
    const std::int64_t rows = config_.train.micro_batch_size;
    const std::uint64_t wanted = std::min<std::uint64_t>(
        data_.heldout_samples, static_cast<std::uint64_t>(config_.train.eval_batches * rows));
    const collectives::Chunk mine = collectives::chunk_of(
        wanted, static_cast<std::size_t>(dp_->size()), static_cast<std::size_t>(dp_->rank()));
    double loss_sum = 0;
    double tokens = 0;
    for (std::size_t done = 0; done < mine.count; done += static_cast<std::size_t>(rows)) {
      const auto count = std::min<std::int64_t>(rows, static_cast<std::int64_t>(mine.count - done));
      batch_->load_heldout(data_.heldout, mine.begin + done, count);
      loss_sum += model_->forward(batch_->tokens(), batch_->targets());
      tokens += static_cast<double>(count * config_.model.sequence);
    }
    const auto totals = sum_over<2>(*control_, {loss_sum, tokens});
    if (totals[1] == 0) return;  // the held-out file is shorter than one sequence
    const EvalRecord record{step, totals[0] / totals[1], static_cast<std::int64_t>(totals[1])};
    result_.evals.push_back(record);
    if (options_.on_eval) options_.on_eval(record);
  }

  // Step times become the maximum over ranks, then measured is set beside predicted.
  void close_books() {
    std::vector<double> times;
    for (const StepRecord& step : result_.steps) times.push_back(step.step_s);
    control_->all_reduce(std::as_bytes(std::span(times)), std::as_writable_bytes(std::span(times)),
                         DType::kFloat64, ReduceOp::kMax, Algorithm::kRing);
    for (std::size_t i = 0; i < times.size(); ++i) result_.steps[i].step_s = times[i];
    const double median_s = median_step_s(result_.steps);
    if (median_s > 0) {
      result_.tokens_per_s = static_cast<double>(result_.steps.back().tokens) / median_s;
    }
    if (plan_.mfu > 0 && median_s > 0) result_.mfu = plan_.mfu * plan_.time.step_s / median_s;
    audit();
  }

  void audit() {
    std::vector<AuditRow> rows = memory_rows(plan_, ledger_);
    for (AuditRow& row :
         traffic_rows(plan_, dp_->traffic(), control_->traffic(), dp_->rank(), dp_->size())) {
      rows.push_back(std::move(row));
    }
    gather_traffic();
    rows.push_back(resident());
    rows = worst_over_ranks(world_, std::move(rows));
    std::erase_if(rows,
                  [](const AuditRow& row) { return row.predicted == 0 && row.measured == 0; });
    for (AuditRow& row : time_rows(plan_, result_.steps)) rows.push_back(std::move(row));
    rows.push_back(replicas());
    result_.audit = std::move(rows);
    result_.audit_ok = all_ok(result_.audit);
  }

  // Only all_reduce runs on these two groups.
  void gather_traffic() {
    for (Communicator* group : {dp_.get(), control_.get()}) {
      collectives::TrafficCount count;
      for (const auto& [key, value] : group->traffic()) {
        count.calls += value.calls;
        count.messages += value.messages;
        count.bytes_sent += value.bytes_sent;
      }
      const std::array<std::uint64_t, 3> mine = {count.calls, count.messages, count.bytes_sent};
      std::vector<std::array<std::uint64_t, 3>> all(static_cast<std::size_t>(world_.size()));
      world_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                        DType::kInt64);
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        result_.traffic.push_back({static_cast<int>(rank), group->group(), "all_reduce",
                                   all[rank][0], all[rank][1], all[rank][2]});
      }
    }
  }

  AuditRow resident() {
    // Gradients lie in shared memory, which is not anonymous.
    const double own = static_cast<double>(ledger_.current_total_bytes() -
                                           ledger_.current_bytes(MemoryTag::kGradients));
    // Ranks that are threads share one resident set.
    const double in_process = world_.backend() == "local" ? sum_over<1>(world_, {own})[0] : own;
    const std::uint64_t now = anonymous_resident_bytes();
    return resident_row(in_process,
                        static_cast<double>(now) - static_cast<double>(resident_before_));
  }

  // Replicas that drifted apart are the one fault that no byte count shows.
  AuditRow replicas() {
    const auto weights = std::as_const(*model_).weights();
    const std::string digest =
        sha256_hex({reinterpret_cast<const char*>(weights.data()), weights.size_bytes()});
    std::string all(digest.size() * static_cast<std::size_t>(world_.size()), '\0');
    world_.all_gather(std::as_bytes(std::span(digest)), std::as_writable_bytes(std::span(all)),
                      DType::kUInt8);
    result_.weights_sha256 = all.substr(0, digest.size());
    AuditRow row;
    row.category = "equal_replicas";
    row.kind = "replicas";
    row.unit = "ranks";
    row.exact = true;
    row.predicted = world_.size();
    for (std::size_t at = 0; at < all.size(); at += digest.size()) {
      row.measured += all.compare(at, digest.size(), result_.weights_sha256) == 0 ? 1 : 0;
    }
    row.note = "ranks whose final weights have rank 0's SHA-256";
    return finish(row);
  }

  Communicator& world_;
  planner::Plan plan_;
  const planner::Config& config_;  // of it
  const TrainingData& data_;
  const TrainOptions& options_;
  TrainResult& result_;

  MemoryLedger ledger_;  // before everything that it counts
  std::unique_ptr<Communicator> dp_;
  std::unique_ptr<Communicator> control_;
  std::unique_ptr<Gpt> model_;
  Buffer moment1_;
  Buffer moment2_;
  Buffer seeded_tagged_;
  Buffer seeded_untagged_;
  std::unique_ptr<MicroBatch> batch_;
  std::unique_ptr<DdpReducer> reducer_;
  std::uint64_t resident_before_ = 0;
};

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD1401", "the engine cannot run " + what, hint);
}

}  // namespace

void check_trainable(const planner::Config& config) {
  const planner::ParallelSpec& mesh = config.parallel;
  const std::string plan_only = "`nqd mesh-plan` plans it; to run here, ";
  if (config.model.family != "gpt") {
    refuse("model family `" + config.model.family + "`: it has no shapes",
           plan_only + "use a gpt model such as `preset: byte-gpt-small`");
  }
  if (mesh.engine != planner::Engine::kDdp) {
    refuse("engine `" + std::string(name(mesh.engine)) + "` yet",
           plan_only + "set parallel.engine: ddp");
  }
  if (mesh.tp > 1 || mesh.pp > 1) {
    refuse("tensor or pipeline parallelism yet", plan_only + "set parallel.tp: 1 and pp: 1");
  }
  if (config.train.precision != planner::Precision::kFloat32 ||
      config.train.gradient_precision != planner::Precision::kFloat32) {
    refuse("precision `" + std::string(name(config.train.precision)) + "` with `" +
               std::string(name(config.train.gradient_precision)) + "` gradients yet",
           plan_only + "set train.precision and train.gradient_precision to float32");
  }
  if (config.train.recompute != planner::Recompute::kNone) {
    refuse("activation recomputation yet", plan_only + "set train.recompute: none");
  }
  if (config.train.ema) refuse("an EMA of the weights yet", plan_only + "set train.ema: false");
  if (!planner::runs_on_cpu_engine(config)) {
    refuse("a plan for cluster `" + config.cluster.preset + "`: its ranks are CPU cores here",
           plan_only + "set cluster.preset: cpu-host");
  }
  if (config.data.path.empty()) {
    throw Error(ExitCode::kUsage, "NQD1402", "the config has no data.path",
                "run `nqd data prepare --output runs/data FILES` and set data.path: runs/data");
  }
}

void check_host_memory(double bytes_per_rank, const HostInfo& host, int ranks_here,
                       const std::string& hint) {
  const double needed = bytes_per_rank * ranks_here;
  const auto limit = static_cast<double>(host.memory_limit_bytes());
  if (limit == 0 || needed <= limit) return;
  throw Error(ExitCode::kNo, "NQD1403",
              std::to_string(ranks_here) + " ranks of " + format_bytes_binary(bytes_per_rank) +
                  " need " + format_bytes_binary(needed) + ", but host " + host.hostname +
                  " allows " + format_bytes_binary(limit) +
                  (host.cgroup_memory_bytes ? " (its cgroup's limit)" : "") + ": " +
                  format_bytes_binary(needed - limit) + " too much",
              hint);
}

void train(Communicator& world, const planner::Plan& plan, const TrainingData& data,
           const TrainOptions& options, TrainResult& result) {
  if (world.size() != plan.config.parallel.ranks()) {
    Error error(ExitCode::kEnvironment, "NQD3001",
                "the mesh has " + std::to_string(plan.config.parallel.ranks()) +
                    " ranks, but this run has " + std::to_string(world.size()),
                "start as many ranks as dp·tp·pp, or change the mesh");
    error.set_quiet(world.rank() != 0);
    throw error;
  }
  Trainer(world, plan, data, options, result).run();
}

}  // namespace nqd::engine
