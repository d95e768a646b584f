#include "engine/parallel/store/unit_store.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "collectives/types.h"
#include "engine/parallel/store/range.h"

namespace nqd::engine {
namespace {

// Elements that are filled at a time.
constexpr std::int64_t kBlock = 4096;

void narrow(std::span<const float> from, DType type, std::byte* to) {
  if (type == DType::kBFloat16) {
    auto* const out = reinterpret_cast<BFloat16*>(to);
    for (std::size_t i = 0; i < from.size(); ++i) out[i] = to_bfloat16(from[i]);
  } else if (type == DType::kFloat16) {
    auto* const out = reinterpret_cast<Float16*>(to);
    for (std::size_t i = 0; i < from.size(); ++i) out[i] = to_float16(from[i]);
  } else {
    std::copy(from.begin(), from.end(), reinterpret_cast<float*>(to));
  }
}

std::span<float> floats(float* data, std::int64_t count) {
  return {data, static_cast<std::size_t>(count)};
}

// Adds the squares of runs of memory to a sum, those that touch in one operation.
class Squares {
 public:
  Squares(Device& device, ExactSum& sum) : device_(device), sum_(sum) {}

  void add(const float* begin, std::int64_t count) {
    if (begin == begin_ + count_) {
      count_ += count;
      return;
    }
    finish();
    begin_ = begin;
    count_ = count;
  }
  void finish() {
    if (count_ > 0) device_.add_squares(sum_, begin_, count_);
    count_ = 0;
  }

 private:
  Device& device_;
  ExactSum& sum_;
  const float* begin_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace

UnitStore::UnitStore(const planner::StateShape& shape, std::vector<planner::LocalUnit> units,
                     const StoreGroups& groups, std::int64_t tp_rank, MemoryLedger* ledger,
                     Device& device)
    : layout_(shape, std::move(units), groups, device),
      tp_rank_(tp_rank),
      memory_(planner::state_buffers(shape, layout_.units, layout_.rank), ledger, device),
      weights_(layout_, memory_),
      gradients_(layout_, memory_, ledger),
      held_(held_runs(layout_.units)),
      runs_(updated_runs(layout_.shape, layout_.units, layout_.rank)) {
  for (const UnitRun& run : runs_) shards_.push_back(shard_of(run));
}

const planner::LocalTensor& UnitStore::tensor_of(const UnitRun& run) const {
  return layout_.units[static_cast<std::size_t>(run.unit)].tensors[run.tensor];
}

float* UnitStore::state(const char* name, std::size_t index, int unit, std::int64_t begin) const {
  return memory_.as<float>(name, index) + place(unit).state + begin - layout_.own_begin(unit);
}

float* UnitStore::float_weights(int unit, std::int64_t begin) const {
  if (layout_.shape.has_master()) return state("master", 0, unit, begin);
  return reinterpret_cast<float*>(weights_.kept(unit, begin));
}

float* UnitStore::gradient(int unit, std::int64_t begin) const {
  return gradients_.own(unit) + begin - layout_.own_begin(unit);
}

void UnitStore::initialize(const Fill& fill) {
  weights_.settle();
  for (std::size_t index = 0; index < layout_.size(); ++index) {
    const auto unit = static_cast<int>(index);
    if (!place(unit).holds_weights()) continue;
    const Range kept{weights_.kept_begin(unit), weights_.kept_end(unit)};
    for (const planner::LocalTensor& tensor : layout_.units[index].tensors) {
      const Range local =
          overlap({0, tensor.elements()}, {kept.begin - tensor.offset, kept.end - tensor.offset});
      if (local.empty()) continue;
      for_each_piece(tensor, local.begin, local.end - local.begin,
                     [&](std::int64_t full, std::int64_t at, std::int64_t count) {
                       fill_piece(unit, tensor.full, full, tensor.offset + at, count, fill);
                     });
    }
  }
}

void UnitStore::fill_piece(int unit, const planner::TensorSpec& tensor, std::int64_t full,
                           std::int64_t begin, std::int64_t count, const Fill& fill) {
  const Range own{layout_.own_begin(unit), layout_.own_end(unit)};
  std::array<float, kBlock> block;
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const auto values = floats(block.data(), std::min(kBlock, count - done));
    fill(tensor, full + done, values);
    const Range here{begin + done, begin + done + static_cast<std::int64_t>(values.size())};
    std::array<std::byte, kBlock * sizeof(float)> stored;
    narrow(values, layout_.shape.weights, stored.data());
    layout_.device.upload(weights_.kept(unit, here.begin), stored.data(),
                          values.size() * size_bytes(layout_.shape.weights));
    const Range part = overlap(here, own);
    if (part.empty()) continue;
    const float* const from = block.data() + (part.begin - here.begin);
    const auto copy_to = [&](float* to) {
      layout_.device.upload(to, from,
                            static_cast<std::size_t>(part.end - part.begin) * sizeof(float));
    };
    if (layout_.shape.has_master()) copy_to(state("master", 0, unit, part.begin));
    if (layout_.shape.ema) copy_to(state("ema", 0, unit, part.begin));
  }
}

const std::byte* UnitStore::acquire(int unit) { return weights_.acquire(unit); }
void UnitStore::release(int unit) { weights_.release(unit); }
void UnitStore::prefetch(int unit) { weights_.prefetch(unit); }

void UnitStore::begin_step() {
  leaves_ = {};
  gradients_.begin_step();
}
float* UnitStore::begin_gradient(int unit) { return gradients_.begin(unit, Clearing::kAll).data; }
OpenGradient UnitStore::open_gradient(int unit) {
  return gradients_.begin(unit, Clearing::kVectors);
}
void UnitStore::end_gradient(int unit) {
  if (overflows_) overflow(unit);
  if (measures_) measure(unit, gradients_.leaf(unit));
  gradients_.end(unit);
}
void UnitStore::count_repeated_gradient(int unit) {
  if (watches_gradients()) throw_misuse("a step that measures its gradients is repeated");
  gradients_.count_repeated(unit);
}
double UnitStore::finish_step() { return gradients_.finish_step() + weights_.take_waited_s(); }

bool UnitStore::is_table(int unit) const {
  return layout_.units[static_cast<std::size_t>(unit)].role == planner::UnitRole::kTokenEmbedding;
}

bool UnitStore::counts(const UnitRun& run) const {
  return speaks_for(layout_.units[static_cast<std::size_t>(run.unit)], tensor_of(run), tp_rank_);
}

ExactSum UnitStore::squared(bool with_table) {
  ExactSum sum;
  // Replicas have equal sums: each counts its share.
  const bool copies = layout_.shape.engine != planner::Engine::kZero1;
  const auto replicas = static_cast<std::size_t>(copies ? layout_.shape.replicas() : 1);
  const auto replica = static_cast<std::size_t>(copies ? layout_.replica : 0);
  Squares squares(layout_.device, sum);
  for (const UnitRun& run : runs_) {
    if (!counts(run) || (is_table(run.unit) && !with_table)) continue;
    const collectives::Chunk share =
        collectives::chunk_of(static_cast<std::size_t>(run.count), replicas, replica);
    squares.add(gradient(run.unit, run.begin) + share.begin,
                static_cast<std::int64_t>(share.count));
  }
  squares.finish();
  layout_.device.collect();
  return sum;
}

ExactSum UnitStore::squared_gradients() { return squared(true); }
ExactSum UnitStore::squared_gradients_but_table() { return squared(false); }

const ExactSum& UnitStore::squared_leaves() {
  layout_.device.collect();
  return leaves_;
}

std::int64_t UnitStore::measured_leaves() const {
  const planner::StateShape& shape = layout_.shape;
  return shape.canonical() || shape.gradient_shards() > 1 ? shape.micro_batches : 1;
}

void UnitStore::measure(int unit, const float* leaf) {
  if (leaf == nullptr || is_table(unit)) return;
  Squares squares(layout_.device, leaves_);
  for (const UnitRun& held : held_) {
    if (held.unit == unit && counts(held)) squares.add(leaf + held.begin, held.count);
  }
  squares.finish();
}

void UnitStore::overflow(int unit) {
  float* const gradient = begin_gradient(unit);
  for (const planner::LocalTensor& tensor : layout_.units[static_cast<std::size_t>(unit)].tensors) {
    if (tensor.shape.size() < 2 || (tensor.replicated && tp_rank_ > 0)) continue;
    if (tensor.elements() == 0) continue;
    const float infinite = std::numeric_limits<float>::infinity();
    layout_.device.upload(gradient + tensor.offset, &infinite, sizeof infinite);
  }
}

std::optional<std::string> UnitStore::first_non_finite() const {
  for (const UnitRun& run : runs_) {
    const std::int64_t bad =
        layout_.device.first_non_finite(gradient(run.unit, run.begin), run.count);
    if (bad < 0) continue;
    const planner::LocalTensor& tensor = tensor_of(run);
    std::string found;
    for_each_piece(tensor, run.begin - tensor.offset + bad, 1,
                   [&](std::int64_t full, std::int64_t, std::int64_t) {
                     found = tensor.full.name + ", element " + std::to_string(full);
                   });
    return found;
  }
  return std::nullopt;
}

ShardRun UnitStore::shard_of(const UnitRun& run) const {
  ShardRun shard;
  shard.tensor = &tensor_of(run);
  shard.unit = run.unit;
  shard.local = run.begin - shard.tensor->offset;
  shard.weights = floats(float_weights(run.unit, run.begin), run.count);
  shard.gradient = floats(gradient(run.unit, run.begin), run.count);
  for (std::size_t i = 0; i < memory_.count("moments"); ++i) {
    shard.moments.push_back(floats(state("moments", i, run.unit, run.begin), run.count));
  }
  if (layout_.shape.has_master()) {
    shard.stored = {weights_.kept(run.unit, run.begin), layout_.shape.weights};
  }
  if (layout_.shape.ema) shard.ema = floats(state("ema", 0, run.unit, run.begin), run.count);
  return shard;
}

void UnitStore::for_each_shard(const std::function<void(const ShardRun&)>& f) {
  // Peers may still read the own part of an earlier publish.
  weights_.settle();
  for (const ShardRun& shard : shards_) f(shard);
}

void UnitStore::for_each_saved(const std::function<void(const ShardRun&)>& f) {
  for (const UnitRun& run : saved_runs(layout_.shape, layout_.units, layout_.rank, tp_rank_)) {
    f(shard_of(run));
  }
}

std::span<float> UnitStore::snapshot() const {
  const std::string name(planner::kSnapshot);
  if (memory_.count(name) == 0) return {};
  std::int64_t elements = 0;
  for (int unit = 0; unit < static_cast<int>(layout_.size()); ++unit) {
    if (place(unit).holds_weights()) elements += layout_.shape.saved(place(unit).elements);
  }
  return floats(memory_.as<float>(name), elements * layout_.shape.quantities());
}

void UnitStore::narrow_own_weights() {
  for (const UnitRun& run : runs_) {
    layout_.device.narrow(weights_.kept(run.unit, run.begin), layout_.shape.weights,
                          state("master", 0, run.unit, run.begin), run.count);
  }
}

void UnitStore::publish(Narrowed narrowed) {
  weights_.settle();
  if (layout_.shape.has_master() && narrowed == Narrowed::kNot) narrow_own_weights();
  weights_.gather_parts();
}

void UnitStore::seed_fault_for_test(StoreFault fault) {
  if (fault == StoreFault::kSkippedSum) gradients_.skip_first_sum_for_test();
  if (fault == StoreFault::kSkippedTiedSum) gradients_.skip_tied_sum_for_test();
  if (fault == StoreFault::kSkippedReplicaSum) gradients_.skip_first_replica_sum_for_test();
  if (fault == StoreFault::kStaleGather) weights_.keep_first_stale_for_test();
}

void UnitStore::append_weights(int unit, const planner::LocalTensor& tensor,
                               std::vector<float>& out) const {
  for (const UnitRun& run : runs_) {
    if (run.unit != unit || &tensor_of(run) != &tensor) continue;
    const auto count = static_cast<std::size_t>(run.count);
    out.resize(out.size() + count);
    layout_.device.download(out.data() + out.size() - count, float_weights(unit, run.begin),
                            count * sizeof(float));
  }
}

}  // namespace nqd::engine
