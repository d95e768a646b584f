#include "engine/trainer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ledger.h"
#include "base/log.h"
#include "engine/audit.h"
#include "engine/checkpoint/state.h"
#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/gemm/gemm.h"
#include "engine/numerics/noise_scale.h"
#include "engine/optimizer/schedule.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/train/across_ranks.h"
#include "engine/train/closing_audit.h"
#include "engine/train/closing_figures.h"
#include "engine/train/device_check.h"
#include "engine/train/host_clock.h"
#include "engine/train/loss_scale.h"
#include "engine/train/preflight.h"
#include "engine/train/rank_state.h"
#include "engine/train/replan.h"
#include "engine/train/roll_back.h"
#include "engine/train/step_guard.h"
#include "engine/train/step_totals.h"
#include "engine/train/step_watch.h"
#include "engine/train/stragglers.h"
#include "engine/train/traffic_meter.h"
#include "planner/layout/activation_buffers.h"
#include "planner/planner.h"
#include "planner/reference/group_reach.h"

namespace nqd::engine {
namespace {

using collectives::Communicator;

class Trainer {
 public:
  Trainer(Communicator& world, const planner::Plan& plan, const TrainingData& data,
          const TrainOptions& options, TrainResult& result)
      : world_(world),
        plan_(plan),
        config_(plan_.config),
        data_(data),
        options_(options),
        result_(result),
        checkpoints_(world, config_, options_.checkpoints, disk()),
        guard_(config_.guard),
        loss_scale_(config_.train.precision),
        fault_(options.seeded, world.rank(), world.size()),
        watch_(world.rank(), {options.deadline_s, plan.time.step_s, options.last_words}) {}

  void run() {
    try {
      train();
    } catch (const Error& error) {
      // NCCL may hang over it.
      if (nccl_ && options_.last_words) options_.last_words(error);
      abandon();
      throw;
    } catch (...) {
      abandon();
      throw;
    }
  }

 private:
  void train() {
    join();
    allocate();
    if (step_ == 0) evaluate(0);
    while (step_ < config_.train.steps && !result_.stopped) {
      run_step(++step_);
      if (guard_.gives_up()) {
        roll_back();
        continue;
      }
      const std::int64_t every = config_.train.eval_every;
      if (step_ == config_.train.steps || (every > 0 && step_ % every == 0)) evaluate(step_);
      save();
    }
    close_books();
  }

  // Device memory cannot go while messages on it wait for ranks that do not come.
  void abandon() {
    if (nccl_) nccl_->abandon();
  }

  void join() {
    result_.data_digest = data_.digest;
    result_.data_synthetic = data_.synthetic;
    if (options_.device == DeviceKind::kCuda) {
      join_gpus();
    } else {
      result_.ranks = gather_identities(world_, device_text(std::nullopt));
    }
    result_.steps.reserve(static_cast<std::size_t>(std::min(config_.train.steps, kReservedSteps)));
    groups_ = join_mesh(world_, config_, ledger_);
    JoinedDevice joined = join_device(device_options(), config_, world_, groups_);
    device_ = std::move(joined.device);
    nccl_ = std::move(joined.nccl);
    result_.backend = groups_.backend;
    if (auto changed = replan(world_, config_, groups_)) {
      plan_ = std::move(*changed);
      groups_.reach = planner::group_reach(plan_.config);
      result_.replanned = plan_;
    }
  }

  // Nothing is on the GPUs yet: what will not fit ends the run here.
  void join_gpus() {
    std::optional<FoundDevice> own;
    attempt_together(world_, [&] { own = find_gpu(config_, world_); });
    result_.ranks = gather_identities(world_, device_text(own));
    attempt_together(world_, [&] {
      check_device_memory(planned_memory_of(config_, world_.rank(), DeviceKind::kCuda).device_bytes,
                          ranks_on_device_of(result_.ranks, world_.rank()), *own,
                          world_.host(world_.rank()));
    });
    if (world_.rank() != 0) return;
    for (const DeviceWarning& warning : device_warnings(config_.cluster.gpu, result_.ranks)) {
      log::warn(warning.evidence + ": " + warning.next_step);
    }
  }

  DeviceOptions device_options() const {
    return {options_.device, options_.messages,
            std::chrono::milliseconds(static_cast<std::int64_t>(options_.deadline_s * 1e3)),
            options_.last_words};
  }

  bool canonical() const { return config_.numerics.mode == collectives::Numerics::kCanonical; }

  void allocate() {
    resident_start_ = resident_start(world_);
    const std::unique_ptr<CheckpointReader> saved = checkpoints_.open(data_.digest);
    state_ = std::make_unique<RankState>(config_, groups_, ledger_, options_.seeded.mutant,
                                         options_.initial_weights, saved.get(), std::move(device_));
    const GemmLibrary library = state_->device().product_library(canonical());
    result_.gemm_library = library.name + " " + library.version;
    result_.gemm_core = library.core;
    if (!options_.step_graph) state_->run_plainly("--no-graph was given");
    if (saved) go_on_from(*saved);
    meter_ = std::make_unique<TrafficMeter>(groups_, state_->runner());
    state_->runner().measure(&phases_);
    stragglers_ = std::make_unique<StragglerMonitor>(config_, *groups_.control);
    result_.parameters = planner::parameter_count(config_.model);
    fault_.begin(ledger_, phases_);
    if (options_.seeded.extra_control_sum) sum_over(*groups_.control, 0);
  }

  void go_on_from(const CheckpointReader& saved) {
    const RunState& state = saved.manifest().state;
    take_counters(state);
    result_.resumed_after = state.step;
    result_.resumed_from = saved.folder().string();
    guard_.restore(state.skipped_in_a_row, state.good_losses);
    data_offset_ = state.data_offset;
    roll_backs_ = state.roll_backs;
  }

  void take_counters(const RunState& state) {
    step_ = state.step;
    result_.skipped_steps = state.skipped_steps;
    loss_scale_.restore(state.loss_scale, state.good_steps);
    noise_.restore(state.noise, state.signal);
  }

  RunState run_state() const {
    return {step_,
            result_.skipped_steps,
            guard_.skipped_in_a_row(),
            loss_scale_.value(),
            loss_scale_.good_steps(),
            noise_.noise(),
            noise_.signal(),
            data_offset_,
            roll_backs_,
            guard_.good_losses()};
  }

  void save() {
    result_.stopped = asked_to_stop_ && step_ < config_.train.steps;
    if (options_.checkpoints.folder.empty()) return;
    save_is_due_ = save_is_due_ || checkpoints_.is_due(step_);
    const bool must_last = step_ == config_.train.steps || result_.stopped;
    // What a roll-back finds is not the middle of what it is to undo.
    const bool waits = config_.guard.roll_back && guard_.skipped_in_a_row() > 0 && !must_last;
    if (waits || (!save_is_due_ && !result_.stopped)) return;
    save_is_due_ = false;
    checkpoints_.save(state_->store(), run_state(), must_last);
  }

  // Collective. Back to the newest generation that can be read and on past the batches since;
  // throws where the run has to end.
  void roll_back() {
    const Setback setback{
        step_, guard_.skipped_in_a_row(), roll_backs_,
        std::string(describe(verdict_)) + first_non_finite(world_, state_->store()) +
            "; steps skipped in a row: " + std::to_string(guard_.skipped_in_a_row())};
    check_may_go_back(setback, config_.guard, world_.rank());
    const ResumeSource::GoneBack back = checkpoints_.go_back(
        step_, [&](const CheckpointReader& saved) { restore(state_->store(), saved); });
    if (!back.reader)
      refuse_without_generation(setback, back.skipped, config_.guard, world_.rank());
    const Manifest& saved = back.reader->manifest();
    const RunState& state = saved.state;
    const RollBackRecord record{step_, state.step, saved.generation, step_ - state.step,
                                setback.reason + skipped_text(back.skipped)};
    data_offset_ += record.skipped_batches;
    ++roll_backs_;
    note_roll_back(result_, record);
    take_counters(state);
    guard_.restore(0, state.good_losses);
    save_is_due_ = false;
    stragglers_->forget_window();
    if (world_.rank() == 0) log::warn(describe(record));
    if (options_.on_roll_back) options_.on_roll_back(record);
  }

  // What a resumed run of this mutant does not know of.
  std::int64_t lost_steps(Mutant mutant) const {
    return options_.seeded.mutant == mutant ? result_.resumed_after : 0;
  }

  void run_step(std::int64_t step) {
    const HostClock host(state_->device());
    phases_.start();
    watch_.begin("step " + std::to_string(step), true);
    fault_.hang(step);
    const planner::OptimizerSpec& optimizer = config_.train.optimizer;
    const bool measures_noise = step % kNoiseEvery == 0 && micro_batches_of_step() > 1;
    state_->store().measure_leaves(measures_noise);
    state_->store().overflow_for_test(fault_.overflows(step));
    const std::int64_t batch = step + data_offset_ - lost_steps(Mutant::kLostPosition);
    state_->train_step(data_, step, batch, loss_scale_.value());
    StepRecord record;
    record.step = step;
    record.exposed_communication_s = state_->store().finish_step();
    fault_.poison(batch, state_->store());
    // Waits for the device; the loss came with it.
    const ExactSum squared_gradients = state_->store().squared_gradients();
    RankTotals mine = own_part(state_->runner().loss());
    fault_.poison(batch, mine);
    mine.squared_gradients = squared_gradients;
    if (measures_noise) {
      mine.squared_leaves = state_->store().squared_leaves();
      mine.squared_but_table = state_->store().squared_gradients_but_table();
    }
    // The norm has waited for the device, which has passed the waits for gradients.
    const NcclMesh::Stood stood = nccl_ ? nccl_->take_stood() : NcclMesh::Stood{};
    record.exposed_communication_s += stood.exposed_s;
    mine.asked_to_stop = options_.asked_to_stop && options_.asked_to_stop();
    mine.save = checkpoints_.status();
    const StepTotals totals = add_up(*groups_.control, mine);
    checkpoints_.note(totals.save);
    asked_to_stop_ = totals.asked_to_stop > 0;
    // Gradients are those of the scaled sum of losses; the mean is over the targets of the step.
    double scale = static_cast<double>(loss_scale_.value()) * static_cast<double>(totals.targets);
    if (options_.seeded.mutant == Mutant::kWrongScale) scale *= world_.size();
    record.tokens = tokens_of(totals.targets);
    record.loss = totals.loss_sum / static_cast<double>(totals.targets);
    record.grad_norm = std::sqrt(totals.squared_gradients) / scale;
    const std::int64_t scheduled = step - lost_steps(Mutant::kLostSchedule);
    record.lr = learning_rate(optimizer, config_.train.steps, scheduled);
    verdict_ = guard_.judge(record.loss, record.grad_norm);
    record.skipped = verdict_ != StepVerdict::kGood;
    loss_scale_.update(record.skipped && verdict_ != StepVerdict::kSpike);
    if (record.skipped) {
      ++result_.skipped_steps;
      state_->skip_update();
    } else {
      if (measures_noise) add_noise(totals, scale);
      state_->update(scheduled - result_.skipped_steps, record.lr,
                     clip_factor(record.grad_norm, optimizer.grad_clip) / scale);
    }
    watch_.end();
    const PhaseTimes times = nccl_ ? on_device(phases_.stop(), stood.all_s) : phases_.stop();
    record.step_s = host.seconds();
    record.host_s = host.at_work_s();
    result_.steps.push_back(record);
    compare_ranks(step, times);
    if (options_.on_step) options_.on_step(record);
  }

  void compare_ranks(std::int64_t step, const PhaseTimes& times) {
    for (const StragglerRecord& straggler : stragglers_->note(step, times)) {
      if (world_.rank() == 0) log::warn(describe(straggler));
      asked_to_stop_ = asked_to_stop_ || config_.guard.straggler_stop;
      result_.stragglers.push_back(straggler);
    }
  }

  // An encoder has one target for all time steps of a sample.
  std::int64_t tokens_of(std::int64_t targets) const {
    return targets * config_.model.sequence / planner::sample_shape(config_.model).targets;
  }

  // Every tp rank saw the same loss: one of them counts.
  RankTotals own_part(const LossSum& loss) const {
    RankTotals mine;
    if (groups_.place.tp != 0) return mine;
    mine.loss = loss.loss;
    mine.targets = loss.targets;
    return mine;
  }

  double micro_batches_of_step() const {
    return static_cast<double>(config_.parallel.dp * config_.micro_batches());
  }

  // `scale` turns the sum of all gradients into their mean.
  void add_noise(const StepTotals& totals, double scale) {
    const double all = micro_batches_of_step();
    const auto measured =
        static_cast<double>(config_.parallel.dp * state_->store().measured_leaves());
    const double of_micro_batch = scale / all;
    noise_.add(totals.squared_leaves / measured / (of_micro_batch * of_micro_batch),
               totals.squared_but_table / (scale * scale),
               static_cast<double>(config_.train.micro_batch_size),
               static_cast<double>(config_.train.global_batch_size));
  }

  void evaluate(std::int64_t step) {
    watch_.begin("the evaluation after step " + std::to_string(step), false);
    meter_->begin_aside();
    const LossSum loss = state_->evaluate(data_);
    meter_->end_aside();
    const StepTotals totals = add_up(*groups_.control, own_part(loss));
    if (nccl_) nccl_->take_stood();  // of no step
    watch_.end();
    if (totals.targets == 0) return;  // the held-out file is shorter than one sequence
    const EvalRecord record{step, totals.loss_sum / static_cast<double>(totals.targets),
                            tokens_of(totals.targets)};
    result_.evals.push_back(record);
    if (options_.on_eval) options_.on_eval(record);
  }

  // Measured is set beside predicted.
  void close_books() {
    settle_step_times(*groups_.control, plan_, result_);
    result_.noise_scale = noise_.sequences();
    result_.checkpoints = checkpoints_.finish();
    record_device(*state_, result_);
    result_.attention_library = state_->device().attention_library();
    // A run that was already complete has done nothing that could be compared with its plan.
    if (!result_.steps.empty()) audit();
    hand_out_weights(world_, config_, state_->store(), options_.on_weights, result_);
  }

  void audit() {
    const SentCounts sent = meter_->counted();
    result_.traffic = gather_traffic(world_, sent);
    result_.audit =
        closing_audit(world_, {plan_, groups_, ledger_, *state_, sent, result_, resident_start_});
    result_.audit_ok = all_ok(result_.audit);
  }

  // Squaring every micro-batch's gradient takes about half a per cent of a step.
  static constexpr std::int64_t kNoiseEvery = 8;
  static constexpr std::int64_t kReservedSteps = 4096;

  Communicator& world_;
  planner::Plan plan_;
  const planner::Config& config_;  // of it
  const TrainingData& data_;
  const TrainOptions& options_;
  TrainResult& result_;

  MemoryLedger ledger_;  // before everything that it counts
  std::unique_ptr<NcclMesh> nccl_;
  MeshGroups groups_;
  PhaseClock phases_;
  std::unique_ptr<Device> device_;  // until the state has it
  std::unique_ptr<RankState> state_;
  std::unique_ptr<TrafficMeter> meter_;
  Checkpoints checkpoints_;
  std::unique_ptr<StragglerMonitor> stragglers_;
  StepGuard guard_;
  LossScale loss_scale_;
  NoiseScale noise_;
  std::int64_t step_ = 0;  // done
  bool asked_to_stop_ = false;
  bool save_is_due_ = false;
  StepVerdict verdict_ = StepVerdict::kGood;  // of the last step
  std::int64_t data_offset_ = 0;              // step s reads the batch of step s + data_offset_
  std::int64_t roll_backs_ = 0;               // of the run, before a resume too
  FaultOfRank fault_;
  ResidentStart resident_start_;
  StepWatch watch_;
};

}  // namespace

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
