#include "engine/parallel/pipeline/stage_runner.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <stdexcept>
#include <utility>

#include "planner/layout/activation_buffers.h"

namespace nqd::engine {
namespace {

using planner::ActionKind;

// The lowest that is free. The planner counted how many are needed (chunk_flights).
std::int64_t take(std::vector<bool>& taken) {
  const auto free = std::find(taken.begin(), taken.end(), false);
  if (free == taken.end()) throw std::logic_error("more micro-batches in flight than planned");
  *free = true;
  return free - taken.begin();
}

int token_table(const std::vector<TransformerChunk>& chunks) {
  int index = 0;
  for (const TransformerChunk& chunk : chunks) {
    for (const planner::LocalUnit& unit : chunk.units()) {
      if (unit.role == planner::UnitRole::kTokenEmbedding) return index;
      ++index;
    }
  }
  return -1;
}

// A tied head without a unit of its own (fast numerics) works on the token table of its stage.
bool uses_table(const std::vector<planner::LocalUnit>& units, std::size_t unit) {
  if (units[unit].role != planner::UnitRole::kHead || unit + 1 < units.size()) return false;
  const auto& tensors = units[unit].tensors;
  return std::none_of(tensors.begin(), tensors.end(), [](const planner::LocalTensor& tensor) {
    return tensor.full.name == "head.weight";
  });
}

}  // namespace

StageRunner::StageRunner(const planner::ScheduleSpec& schedule, std::int64_t stage,
                         std::vector<TransformerChunk> chunks, UnitStore& store,
                         collectives::Communicator* pp)
    : spec_(schedule),
      stage_(stage),
      chunks_(std::move(chunks)),
      store_(store),
      table_(token_table(chunks_)) {
  const planner::PipelineSchedule plan = planner::make_schedule(schedule);
  actions_ = plan.stages[static_cast<std::size_t>(stage)];
  if (pp != nullptr) links_ = std::make_unique<PipelineLinks>(*pp, schedule);
  int first_unit = 0;
  const std::vector<planner::ChunkFlight> flights = planner::chunk_flights(plan, stage);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    Place place;
    place.chunk = flights[i].chunk;
    place.first_unit = first_unit;
    place.slot_taken.resize(static_cast<std::size_t>(flights[i].slots));
    place.stash_taken.resize(static_cast<std::size_t>(flights[i].stashes));
    place.sends.resize(place.slot_taken.size());
    place.gradient_sends.resize(static_cast<std::size_t>(flights[i].gradients));
    first_unit += static_cast<int>(chunks_[i].units().size());
    places_.push_back(std::move(place));
  }
}

bool StageRunner::is_last(const Place& place) const {
  return place.chunk + 1 == planner::chunk_count(spec_);
}

std::int32_t StageRunner::stage_of(std::int64_t chunk) const {
  return static_cast<std::int32_t>(planner::stage_of_chunk(spec_, chunk));
}

std::size_t StageRunner::index_of(std::int64_t chunk) const {
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& place) { return place.chunk == chunk; });
  return static_cast<std::size_t>(found - places_.begin());
}

void StageRunner::repeat_passes(PassRepeats repeats) {
  repeats_ = repeats;
  if (repeats_ != PassRepeats::kNone && !step_) {
    step_ = store_.device().allocate(nullptr, MemoryTag::kWorkspace, sizeof(std::uint32_t),
                                     Reach::kOwn);
  }
}

void StageRunner::train(std::int64_t step, float loss_scale, const Load& load) {
  context_ = {};
  context_.step = step;
  context_.loss_scale = loss_scale;
  if (repeats_ != PassRepeats::kNone) {
    const auto low = static_cast<std::uint32_t>(step);
    store_.device().upload(step_->data(), &low, sizeof low);
    context_.step_at = reinterpret_cast<const std::uint32_t*>(step_->data());
  }
  for (Place& place : places_)
    place.passes.assign(static_cast<std::size_t>(spec_.micro_batches), {});
  sum_ = {};
  repeats_now_ = repeats_ != PassRepeats::kNone && !store_.watches_gradients();
  all_repeated_ = repeats_now_;
  for (const planner::Action& action : actions_) {
    const std::size_t at = index_of(action.chunk);
    if (action.kind == ActionKind::kForward) {
      forward(at, action.micro_batch, load);
    } else {
      backward(at, action.micro_batch, action.kind);
    }
  }
  finish_sends();
  if (all_repeated_) ++repeated_steps_;
}

LossSum StageRunner::loss() {
  store_.device().collect();
  return sum_;
}

LossSum StageRunner::evaluate(std::int64_t micro_batches, const Load& load) {
  context_ = {};
  context_.training = false;
  for (Place& place : places_) place.passes.assign(static_cast<std::size_t>(micro_batches), {});
  sum_ = {};
  repeats_now_ = false;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    for (std::size_t at = 0; at < places_.size(); ++at) {
      forward(at, i, load);
      finish(at, i);
    }
  }
  finish_sends();
  return loss();
}

void StageRunner::finish_sends() {
  for (Place& place : places_) {
    for (collectives::Work& send : place.sends) send.wait();
    for (collectives::Work& send : place.gradient_sends) send.wait();
  }
}

UnitWeights StageRunner::acquire(std::size_t at, int unit) {
  UnitWeights weights;
  weights.own = store_.acquire(places_[at].first_unit + unit);
  if (uses_table(chunks_[at].units(), static_cast<std::size_t>(unit))) {
    weights.table = store_.acquire(table_);
  }
  return weights;
}

void StageRunner::release(std::size_t at, int unit) {
  store_.release(places_[at].first_unit + unit);
  if (uses_table(chunks_[at].units(), static_cast<std::size_t>(unit))) store_.release(table_);
}

void StageRunner::forward(std::size_t at, std::int64_t micro_batch, const Load& load) {
  const InPhase in_forward(clock_, Phase::kForward);
  Place& place = places_[at];
  TransformerChunk& chunk = chunks_[at];
  Pass& pass = place.passes[static_cast<std::size_t>(micro_batch)];
  pass = context_;
  pass.slot = take(place.slot_taken);
  place.peak_slots =
      std::max(place.peak_slots, static_cast<std::int64_t>(std::count(
                                     place.slot_taken.begin(), place.slot_taken.end(), true)));
  place.sends[static_cast<std::size_t>(pass.slot)].wait();
  const Batch batch = load_measured(micro_batch, load);
  pass.first_sequence = batch.first_sequence;
  if (is_first(place)) {
    chunk.load_inputs(pass.slot, batch.inputs);
  } else {
    receive_input(at, micro_batch, pass);
  }
  if (is_last(place)) chunk.load_targets(pass.slot, batch.targets);
  const auto units = [&] { forward_units(at, pass); };
  run_units(at, micro_batch, ActionKind::kForward, std::ref(units));
  if (is_last(place)) {
    const std::span<const double> losses = chunk.row_losses();
    store_.device().add_values(sum_.loss, losses.data(), static_cast<std::int64_t>(losses.size()));
    sum_.targets += chunk.unmasked_targets(pass.slot);
  } else {
    send_output(at, pass);
  }
}

Batch StageRunner::load_measured(std::int64_t micro_batch, const Load& load) {
  const InPhase in_data(clock_, Phase::kData);
  return load(micro_batch);
}

void StageRunner::run_units(std::size_t at, std::int64_t micro_batch, ActionKind kind,
                            const std::function<void()>& units) {
  if (!repeats_now_) return units();
  constexpr std::int64_t kKinds = 4;
  const Place& place = places_[at];
  const Pass& pass = place.passes[static_cast<std::size_t>(micro_batch)];
  std::int64_t alike = micro_batch;
  if (repeats_ == PassRepeats::kShared) {
    alike = kind == ActionKind::kForward ? 0 : store_.first_alike(micro_batch);
  }
  const std::int64_t of_stage = static_cast<std::int64_t>(at) * spec_.micro_batches + alike;
  const Repetition which{
      of_stage * kKinds + static_cast<std::int64_t>(kind),
      {pass.slot, pass.stash, pass.gradient, std::bit_cast<std::int32_t>(pass.loss_scale)}};
  if (store_.device().repeat(which, units)) {
    all_repeated_ = false;
    return;
  }
  if (kind != ActionKind::kBackward && kind != ActionKind::kBackwardWeight) return;
  const int count = static_cast<int>(chunks_[at].units().size());
  for (int unit = 0; unit < count; ++unit) store_.count_repeated_gradient(place.first_unit + unit);
}

void StageRunner::forward_units(std::size_t at, const Pass& pass) {
  const int units = static_cast<int>(chunks_[at].units().size());
  for (int unit = 0; unit < units; ++unit) {
    const UnitWeights weights = acquire(at, unit);
    if (unit + 1 < units) store_.prefetch(places_[at].first_unit + unit + 1);
    chunks_[at].forward(unit, weights, pass);
    release(at, unit);
  }
}

void StageRunner::receive_input(std::size_t at, std::int64_t micro_batch, const Pass& pass) {
  const std::int64_t before = places_[at].chunk - 1;
  const std::span<std::byte> input = chunks_[at].input(pass.slot);
  if (stage_of(before) != stage_) {
    store_.device().before_message();
    links_->receive(Direction::kForward, stage_of(before), input);
    if (delays_inputs_) swap_for_test(input, places_[at].late);
    return;
  }
  const std::size_t giver = index_of(before);
  const Pass& given = places_[giver].passes[static_cast<std::size_t>(micro_batch)];
  store_.device().copy(input.data(), chunks_[giver].output(given.slot).data(), input.size());
}

void StageRunner::swap_for_test(std::span<std::byte> input, std::vector<std::byte>& late) const {
  std::vector<std::byte> now(input.size());
  late.resize(input.size());
  store_.device().download(now.data(), input.data(), input.size());
  store_.device().upload(input.data(), late.data(), input.size());
  late = std::move(now);
}

void StageRunner::send_output(std::size_t at, const Pass& pass) {
  const std::int32_t to = stage_of(places_[at].chunk + 1);
  if (to == stage_) return;
  store_.device().before_message();
  places_[at].sends[static_cast<std::size_t>(pass.slot)] =
      links_->send(Direction::kForward, to, chunks_[at].output(pass.slot));
}

void StageRunner::backward(std::size_t at, std::int64_t micro_batch, ActionKind kind) {
  const InPhase in_backward(clock_, Phase::kBackward);
  Place& place = places_[at];
  Pass& pass = place.passes[static_cast<std::size_t>(micro_batch)];
  if (kind == ActionKind::kBackwardWeight) {
    const auto units = [&] { weight_gradients(at, pass); };
    run_units(at, micro_batch, kind, std::ref(units));
    place.stash_taken[static_cast<std::size_t>(pass.stash)] = false;
    finish(at, micro_batch);
    return;
  }
  const bool split = kind == ActionKind::kBackwardInput;
  if (split) pass.stash = take(place.stash_taken);
  pass.gradient = place.next_gradient;
  place.next_gradient =
      (place.next_gradient + 1) % static_cast<std::int64_t>(place.gradient_sends.size());
  place.gradient_sends[static_cast<std::size_t>(pass.gradient)].wait();
  if (!is_last(place)) receive_gradient(at, micro_batch, pass);
  const auto units = [&] { backward_units(at, pass, !split); };
  run_units(at, micro_batch, kind, std::ref(units));
  if (!is_first(place)) send_gradient(at, pass);
  if (!split) finish(at, micro_batch);
}

void StageRunner::backward_units(std::size_t at, const Pass& pass, bool with_weights) {
  for (int unit = static_cast<int>(chunks_[at].units().size()) - 1; unit >= 0; --unit) {
    recompute_units(at, unit, pass);
    const UnitWeights weights = acquire(at, unit);
    if (unit > 0) store_.prefetch(places_[at].first_unit + unit - 1);
    chunks_[at].backward_input(unit, weights, pass);
    release(at, unit);
    if (with_weights) weight_gradient(at, unit, pass);
  }
}

void StageRunner::weight_gradients(std::size_t at, const Pass& pass) {
  for (int unit = static_cast<int>(chunks_[at].units().size()) - 1; unit >= 0; --unit) {
    weight_gradient(at, unit, pass);
  }
}

void StageRunner::recompute_units(std::size_t at, int unit, const Pass& pass) {
  const UnitRange range = chunks_[at].recompute_before(unit);
  for (int again = range.begin; again < range.end; ++again) {
    const UnitWeights weights = acquire(at, again);
    chunks_[at].recompute(again, weights, pass);
    release(at, again);
  }
}

void StageRunner::weight_gradient(std::size_t at, int unit, const Pass& pass) {
  const int stored = places_[at].first_unit + unit;
  UnitGradients gradients;
  if (chunks_[at].units()[static_cast<std::size_t>(unit)].role == planner::UnitRole::kLayer) {
    const OpenGradient open = store_.open_gradient(stored);
    gradients.own = open.data;
    gradients.fresh = open.fresh;
  } else {
    gradients.own = store_.begin_gradient(stored);
  }
  // The embedding's own backward comes later and ends this contribution.
  if (uses_table(chunks_[at].units(), static_cast<std::size_t>(unit))) {
    gradients.table = store_.begin_gradient(table_);
  }
  chunks_[at].backward_weight(unit, gradients, pass);
  store_.end_gradient(stored);
}

void StageRunner::receive_gradient(std::size_t at, std::int64_t micro_batch, const Pass& pass) {
  const std::int64_t after = places_[at].chunk + 1;
  const std::span<std::byte> gradient = chunks_[at].gradient(pass.gradient);
  if (stage_of(after) != stage_) {
    store_.device().before_message();
    links_->receive(Direction::kBackward, stage_of(after), gradient);
    return;
  }
  const std::size_t giver = index_of(after);
  const Pass& given = places_[giver].passes[static_cast<std::size_t>(micro_batch)];
  store_.device().copy(gradient.data(), chunks_[giver].gradient(given.gradient).data(),
                       gradient.size());
}

void StageRunner::send_gradient(std::size_t at, const Pass& pass) {
  const std::int32_t to = stage_of(places_[at].chunk - 1);
  if (to == stage_) return;
  store_.device().before_message();
  places_[at].gradient_sends[static_cast<std::size_t>(pass.gradient)] =
      links_->send(Direction::kBackward, to, chunks_[at].gradient(pass.gradient));
}

void StageRunner::finish(std::size_t at, std::int64_t micro_batch) {
  const Pass& pass = places_[at].passes[static_cast<std::size_t>(micro_batch)];
  places_[at].slot_taken[static_cast<std::size_t>(pass.slot)] = false;
}

collectives::TrafficCount StageRunner::traffic() const {
  return links_ ? links_->traffic() : collectives::TrafficCount{};
}

}  // namespace nqd::engine
