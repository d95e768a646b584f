#include "engine/parallel/store/gradient_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/layout/state_buffers.h"

namespace nqd::engine {
namespace {

using collectives::Collective;
using collectives::ReduceOp;
using planner::UnitRole;

std::span<float> floats(float* data, std::int64_t count) {
  return {data, static_cast<std::size_t>(count)};
}

std::vector<float*> vectors_of(const StoreMemory& memory) {
  std::vector<float*> vectors;
  for (std::size_t i = 0; i < memory.count("gradients"); ++i) {
    vectors.push_back(memory.as<float>("gradients", i));
  }
  // A rank without elements still counts its additions.
  if (vectors.empty()) vectors.push_back(nullptr);
  return vectors;
}

std::string leaf_name(UnitRole role) { return "leaf." + std::string(planner::name(role)); }

}  // namespace

GradientStore::GradientStore(const StoreLayout& layout, const StoreMemory& memory,
                             MemoryLedger* ledger)
    : layout_(layout),
      sums_(planner::addition_order(layout.shape, layout.replica), layout.shape.canonical(),
            vectors_of(memory), layout.device),
      replicas_(layout, sums_, ledger),
      states_(layout.size()) {
  make_slots(memory);
  if (layout.shape.engine == planner::Engine::kDdp && layout.summed_over != nullptr) {
    buckets_ = planner::unit_buckets(layout.shape, layout.units);
  }
  bucket_started_.resize(buckets_.size());
}

void GradientStore::make_slots(const StoreMemory& memory) {
  for (const UnitRole role : planner::kUnitRoles) {
    const std::string name = leaf_name(role);
    if (!sharded()) {
      leaves_[role] = memory.as<float>(name);
      continue;
    }
    // A unit without elements has no buffer, and its turn costs nothing.
    for (std::size_t i = 0; i < std::max<std::size_t>(memory.count(name), 1); ++i) {
      Slot slot;
      slot.role = role;
      slot.leaf = memory.as<float>(name, i);
      slot.received = memory.as<float>("received." + std::string(planner::name(role)), i);
      turn_[role].push_back(slots_.size());
      slots_.push_back(std::move(slot));
    }
  }
}

void GradientStore::begin_step() {
  for (UnitState& state : states_) state = {};
  bucket_started_.assign(buckets_.size(), false);
  started_ = false;
}

OpenGradient GradientStore::begin(int unit, Clearing clearing) {
  UnitState& state = states_[static_cast<std::size_t>(unit)];
  if (state.open) return {state.data, false};
  const std::int64_t micro_batches = layout_.shape.micro_batches;
  if (state.done == micro_batches) {
    throw_misuse("unit " + layout_.units[static_cast<std::size_t>(unit)].name +
                 " has had the gradients of all " + std::to_string(micro_batches) +
                 " micro-batches of the step");
  }
  state.open = true;
  const OpenGradient open =
      sharded() ? OpenGradient{begin_sharded(unit), true} : begin_local(unit, state.done);
  if (open.fresh) clear(unit, open.data, clearing);
  state.data = open.data;
  return open;
}

// The padding too: it is summed with the rest.
void GradientStore::clear(int unit, float* data, Clearing clearing) const {
  if (clearing == Clearing::kAll) return layout_.device.zero(data, place(unit).padded);
  const planner::LocalUnit& of = layout_.units[static_cast<std::size_t>(unit)];
  for (const planner::LocalTensor& tensor : of.tensors) {
    if (tensor.shape.size() == 1) layout_.device.zero(data + tensor.offset, tensor.elements());
  }
  layout_.device.zero(data + of.elements, place(unit).padded - of.elements);
}

OpenGradient GradientStore::begin_local(int unit, std::int64_t micro_batch) {
  const UnitPlace& at = place(unit);
  const auto index = static_cast<std::size_t>(micro_batch);
  const bool canonical = layout_.shape.canonical();
  if (!canonical && index > 0) return {sums_.target(index, at.gradient), false};
  if (sums_.is_first(index)) return {sums_.target(index, at.gradient), true};
  return {leaves_[layout_.units[static_cast<std::size_t>(unit)].role], true};
}

float* GradientStore::begin_sharded(int unit) {
  // The additions of one unit follow one another in the order of its micro-batches.
  for (Slot& slot : slots_) {
    if (slot.unit == unit) settle(slot);
  }
  std::vector<std::size_t>& turn = turn_[layout_.units[static_cast<std::size_t>(unit)].role];
  const auto free = std::find_if(turn.begin(), turn.end(), [&](std::size_t index) {
    return slots_[index].unit < 0 || slots_[index].started;
  });
  if (free == turn.end()) {
    throw_misuse("gradients of " + std::to_string(turn.size() + 1) +
                 " units of one role are open at a time");
  }
  const std::size_t index = *free;
  std::rotate(free, free + 1, turn.end());
  Slot& slot = slots_[index];
  settle(slot);
  UnitState& state = states_[static_cast<std::size_t>(unit)];
  slot.unit = unit;
  slot.micro_batch = state.done;
  state.slot = index;
  return slot.leaf;
}

const float* GradientStore::leaf(int unit) const {
  const UnitState& state = states_[static_cast<std::size_t>(unit)];
  const bool alone = sharded() || layout_.shape.canonical() || state.done == 0;
  return state.open && alone ? state.data : nullptr;
}

void GradientStore::end(int unit) {
  UnitState& state = states_[static_cast<std::size_t>(unit)];
  if (!state.open) {
    throw_misuse("the gradient of unit " + layout_.units[static_cast<std::size_t>(unit)].name +
                 " ends without having begun");
  }
  if (sharded()) {
    start(slots_[state.slot]);
  } else {
    end_local(unit);
  }
  state.open = false;
  finish_micro_batch(unit);
}

void GradientStore::count_repeated(int unit) {
  const UnitState& state = states_[static_cast<std::size_t>(unit)];
  if (sharded() || state.open || state.done == layout_.shape.micro_batches) {
    throw_misuse("the gradient of unit " + layout_.units[static_cast<std::size_t>(unit)].name +
                 " cannot have been repeated");
  }
  finish_micro_batch(unit);
}

void GradientStore::finish_micro_batch(int unit) {
  UnitState& state = states_[static_cast<std::size_t>(unit)];
  ++state.done;
  if (!sharded() && state.done == layout_.shape.micro_batches) complete(unit);
}

void GradientStore::end_local(int unit) {
  const UnitState& state = states_[static_cast<std::size_t>(unit)];
  const auto index = static_cast<std::size_t>(state.done);
  const std::int64_t offset = place(unit).gradient;
  if (state.data == sums_.target(index, offset)) return;
  sums_.add(index, offset, state.data, place(unit).padded);
}

void GradientStore::start(Slot& slot) {
  slot.started = true;
  const UnitPlace& at = place(slot.unit);
  if (at.padded == 0) return;
  const std::size_t per = sums_.order().per_micro_batch;
  const std::size_t index = static_cast<std::size_t>(slot.micro_batch) * per;
  slot.in_place = per == 1 && sums_.is_first(index);
  const Collective collective = per == 1 ? Collective::kReduceScatter : Collective::kAllToAll;
  float* const out = slot.in_place ? sums_.target(index, at.gradient) : slot.received;
  if (!std::exchange(started_, true) && skips_first_) return keep_own_for_test(slot, out);
  const auto leaf = std::as_bytes(floats(slot.leaf, at.padded));
  const auto sum = std::as_writable_bytes(floats(out, per == 1 ? at.part : at.padded));
  layout_.device.before_message();
  slot.work = layout_.groups.dp->start(
      {collective, leaf, sum, DType::kFloat32, ReduceOp::kSum},
      store_algorithm(layout_, *layout_.groups.dp, collective, leaf.size()));
}

void GradientStore::keep_own_for_test(const Slot& slot, float* out) const {
  const UnitPlace& at = place(slot.unit);
  const bool all = sums_.order().per_micro_batch > 1;
  const std::int64_t own = layout_.own_begin(slot.unit);
  layout_.device.zero(out, all ? at.padded : at.part);
  layout_.device.copy(all ? out + own : out, slot.leaf + own,
                      static_cast<std::size_t>(at.part) * sizeof(float));
}

void GradientStore::skip_first_sum_for_test() {
  skips_first_ = sharded();
  if (!sharded()) skip_first_replica_sum_for_test();
}

void GradientStore::settle(Slot& slot) {
  if (slot.unit < 0 || !slot.started) return;
  const UnitPlace& at = place(slot.unit);
  waited_s_ += timed_wait(slot.work);
  const std::size_t per = sums_.order().per_micro_batch;
  for (std::size_t i = 0; i < per && !slot.in_place && at.part > 0; ++i) {
    sums_.add(static_cast<std::size_t>(slot.micro_batch) * per + i, at.gradient,
              slot.received + static_cast<std::int64_t>(i) * at.part, at.part);
  }
  const int unit = std::exchange(slot.unit, -1);
  slot.started = false;
  if (slot.micro_batch + 1 == layout_.shape.micro_batches) complete(unit);
}

void GradientStore::complete(int unit) {
  const UnitPlace& at = place(unit);
  if (sharded()) {
    replicas_.start(at.gradient, at.part);
  } else if (buckets_.empty()) {
    replicas_.start(at.gradient, at.padded);
  } else {
    start_whole_buckets();
  }
}

void GradientStore::start_whole_buckets() {
  const auto is_open = [&](const planner::Bucket& bucket) {
    for (std::size_t unit = 0; unit < states_.size(); ++unit) {
      const UnitPlace& at = layout_.places[unit];
      const bool inside =
          at.gradient < bucket.begin + bucket.count && bucket.begin < at.gradient + at.padded;
      if (inside && states_[unit].done < layout_.shape.micro_batches) return true;
    }
    return false;
  };
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (bucket_started_[i] || is_open(buckets_[i])) continue;
    bucket_started_[i] = true;
    replicas_.start(buckets_[i].begin, buckets_[i].count);
  }
}

void GradientStore::check_step() const {
  for (std::size_t unit = 0; unit < states_.size(); ++unit) {
    if (states_[unit].done == layout_.shape.micro_batches) continue;
    throw_misuse("the step ends after " + std::to_string(states_[unit].done) + " of " +
                 std::to_string(layout_.shape.micro_batches) + " gradients of unit " +
                 layout_.units[unit].name);
  }
}

double GradientStore::finish_step() {
  for (const auto& [role, turn] : turn_) {
    for (const std::size_t index : turn) settle(slots_[index]);
  }
  check_step();
  waited_s_ += replicas_.finish();
  join_ends();
  return std::exchange(waited_s_, 0.0);
}

// What the token table gets as embedding and as head.
void GradientStore::join_ends() {
  const int table = layout_.find(UnitRole::kTokenEmbedding);
  const int tied = layout_.find(UnitRole::kTied);
  if (tied >= 0 && !place(tied).holds_weights()) {
    layout_.device.add(own(table), own(tied), place(table).part);
  }
  const collectives::Communicator* const ends = layout_.groups.embedding;
  if (ends == nullptr || ends->size() == 1 || skips_tied_) return;
  const int end = tied >= 0 ? tied : table;
  if (end < 0) throw_misuse("a stage without an end of the model has an embedding group");
  const auto sum = std::as_writable_bytes(floats(own(end), place(end).part));
  if (sum.empty()) return;
  layout_.device.before_message();
  collectives::Work work = layout_.groups.embedding->start(
      {Collective::kAllReduce, sum, sum, DType::kFloat32, ReduceOp::kSum},
      store_algorithm(layout_, *layout_.groups.embedding, Collective::kAllReduce, sum.size()));
  waited_s_ += timed_wait(work);
}

float* GradientStore::own(int unit) const {
  const std::int64_t inside = sharded() ? 0 : layout_.own_begin(unit);
  return sums_.sum(place(unit).gradient + inside);
}

}  // namespace nqd::engine
