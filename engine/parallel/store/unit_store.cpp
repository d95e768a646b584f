#include "engine/parallel/store/unit_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "collectives/types.h"
#include "engine/parallel/store/share_out.h"

namespace nqd::engine {
namespace {

// Elements that are filled, or narrowed, at a time.
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

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool empty() const { return begin >= end; }
};

Range overlap(const Range& a, const Range& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// The ranges of a local tensor that hold something of the full one: pieces that touch are one.
std::vector<Range> held_ranges(const planner::LocalTensor& tensor) {
  std::vector<Range> held;
  for (const planner::Piece& piece : tensor.pieces) {
    if (held.empty() || held.back().end != piece.local) held.push_back({piece.local, piece.local});
    held.back().end += piece.count;
  }
  return held;
}

std::span<float> floats(float* data, std::int64_t count) {
  return {data, static_cast<std::size_t>(count)};
}

}  // namespace

void for_each_piece(
    const planner::LocalTensor& tensor, std::int64_t local, std::int64_t count,
    const std::function<void(std::int64_t full, std::int64_t local, std::int64_t count)>& f) {
  const Range wanted{local, local + count};
  for (const planner::Piece& piece : tensor.pieces) {
    const Range part = overlap({piece.local, piece.local + piece.count}, wanted);
    if (!part.empty()) f(piece.full + part.begin - piece.local, part.begin, part.end - part.begin);
  }
}

UnitStore::UnitStore(const planner::StateShape& shape, std::vector<planner::LocalUnit> units,
                     const StoreGroups& groups, std::int64_t tp_rank, MemoryLedger* ledger,
                     WorkerPool* pool)
    : layout_(shape, std::move(units), groups, pool),
      tp_rank_(tp_rank),
      memory_(planner::state_buffers(shape, layout_.units, layout_.rank), ledger),
      weights_(layout_, memory_),
      gradients_(layout_, memory_, ledger) {
  find_runs();
}

void UnitStore::find_runs() {
  for (std::size_t index = 0; index < layout_.size(); ++index) {
    const auto unit = static_cast<int>(index);
    if (!place(unit).holds_weights()) continue;
    const Range own{layout_.own_begin(unit), layout_.own_end(unit)};
    const std::vector<planner::LocalTensor>& tensors = layout_.units[index].tensors;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      for (const Range& held : held_ranges(tensors[tensor])) {
        const std::int64_t offset = tensors[tensor].offset;
        const Range part = overlap({offset + held.begin, offset + held.end}, own);
        if (!part.empty()) runs_.push_back({unit, tensor, part.begin, part.end - part.begin});
      }
    }
  }
}

const planner::LocalTensor& UnitStore::tensor_of(const Run& run) const {
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
    narrow(values, layout_.shape.weights, weights_.kept(unit, here.begin));
    const Range part = overlap(here, own);
    if (part.empty()) continue;
    const float* const from = block.data() + (part.begin - here.begin);
    const auto copy_to = [&](float* to) { std::copy_n(from, part.end - part.begin, to); };
    if (layout_.shape.has_master()) copy_to(state("master", 0, unit, part.begin));
    if (layout_.shape.ema) copy_to(state("ema", 0, unit, part.begin));
  }
}

const std::byte* UnitStore::acquire(int unit) { return weights_.acquire(unit); }
void UnitStore::release(int unit) { weights_.release(unit); }
void UnitStore::prefetch(int unit) { weights_.prefetch(unit); }

void UnitStore::begin_step() { gradients_.begin_step(); }
float* UnitStore::begin_gradient(int unit) { return gradients_.begin(unit); }
void UnitStore::end_gradient(int unit) { gradients_.end(unit); }
double UnitStore::finish_step() { return gradients_.finish_step() + weights_.take_waited_s(); }

ExactSum UnitStore::squared_gradients() const {
  const auto threads = static_cast<std::size_t>(layout_.pool ? layout_.pool->threads() : 1);
  std::vector<ExactSum> sums(threads);
  for (const Run& run : runs_) {
    const bool tied =
        layout_.units[static_cast<std::size_t>(run.unit)].role == planner::UnitRole::kTied;
    if (tied || (tensor_of(run).replicated && tp_rank_ != 0)) continue;
    // Replicas have equal sums: each counts its share.
    const bool copies = layout_.shape.engine != planner::Engine::kZero1;
    const collectives::Chunk share =
        collectives::chunk_of(static_cast<std::size_t>(run.count),
                              copies ? static_cast<std::size_t>(layout_.shape.replicas()) : 1,
                              copies ? static_cast<std::size_t>(layout_.replica) : 0);
    const float* const values = gradient(run.unit, run.begin) + share.begin;
    share_out(layout_.pool, static_cast<std::int64_t>(share.count),
              [&](int worker, std::int64_t begin, std::int64_t end) {
                sums[static_cast<std::size_t>(worker)].add_squares(
                    {values + begin, static_cast<std::size_t>(end - begin)});
              });
  }
  for (std::size_t i = 1; i < threads; ++i) sums.front().add(sums[i]);
  return sums.front();
}

std::optional<std::string> UnitStore::first_non_finite() const {
  for (const Run& run : runs_) {
    const auto values = floats(gradient(run.unit, run.begin), run.count);
    const auto bad = std::find_if(values.begin(), values.end(),
                                  [](float value) { return !std::isfinite(value); });
    if (bad == values.end()) continue;
    const planner::LocalTensor& tensor = tensor_of(run);
    std::string found;
    for_each_piece(tensor, run.begin - tensor.offset + (bad - values.begin()), 1,
                   [&](std::int64_t full, std::int64_t, std::int64_t) {
                     found = tensor.full.name + ", element " + std::to_string(full);
                   });
    return found;
  }
  return std::nullopt;
}

void UnitStore::for_each_shard(const std::function<void(const ShardRun&)>& f) {
  // Peers may still read the own part of an earlier publish.
  weights_.settle();
  for (const Run& run : runs_) {
    ShardRun shard;
    shard.tensor = &tensor_of(run);
    shard.unit = run.unit;
    shard.local = run.begin - shard.tensor->offset;
    shard.weights = floats(float_weights(run.unit, run.begin), run.count);
    shard.gradient = floats(gradient(run.unit, run.begin), run.count);
    for (std::size_t i = 0; i < memory_.count("moments"); ++i) {
      shard.moments.push_back(floats(state("moments", i, run.unit, run.begin), run.count));
    }
    if (layout_.shape.ema) shard.ema = floats(state("ema", 0, run.unit, run.begin), run.count);
    f(shard);
  }
}

void UnitStore::narrow_own_weights() {
  for (const Run& run : runs_) {
    share_out(layout_.pool, run.count, [&](int, std::int64_t begin, std::int64_t end) {
      narrow(floats(state("master", 0, run.unit, run.begin + begin), end - begin),
             layout_.shape.weights, weights_.kept(run.unit, run.begin + begin));
    });
  }
}

void UnitStore::publish() {
  if (layout_.shape.has_master()) narrow_own_weights();
  weights_.gather_parts();
}

void UnitStore::seed_fault_for_test(StoreFault fault) {
  if (fault == StoreFault::kSkippedSum) gradients_.skip_first_sum_for_test();
  if (fault == StoreFault::kStaleShard) weights_.keep_first_stale_for_test();
}

void UnitStore::append_weights(int unit, const planner::LocalTensor& tensor,
                               std::vector<float>& out) const {
  for (const Run& run : runs_) {
    if (run.unit != unit || &tensor_of(run) != &tensor) continue;
    const auto values = floats(float_weights(unit, run.begin), run.count);
    out.insert(out.end(), values.begin(), values.end());
  }
}

}  // namespace nqd::engine
