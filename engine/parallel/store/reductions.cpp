#include "engine/parallel/store/reductions.h"

#include <chrono>
#include <utility>

#include "collectives/canonical/canonical.h"
#include "planner/layout/engine_algorithm.h"
#include "planner/layout/state_buffers.h"

namespace nqd::engine {

using collectives::Algorithm;
using collectives::Collective;
using collectives::ReduceOp;

Algorithm store_algorithm(const StoreLayout& layout, const collectives::Communicator& group,
                          Collective collective, std::uint64_t bytes) {
  return planner::engine_algorithm(layout.shape.numerics, collective, group.size(), bytes,
                                   DType::kFloat32,
                                   layout.groups.is_direct(&group) && group.shares_memory());
}

double timed_wait(collectives::Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ReplicaSums::ReplicaSums(const StoreLayout& layout, const PartialSums& sums, MemoryLedger* ledger)
    : layout_(layout),
      sums_(sums),
      collective_(layout.shape.engine == planner::Engine::kZero1 ? Collective::kReduceScatter
                                                                 : Collective::kAllReduce),
      even_(planner::sums_evenly(layout.shape)) {
  if (even_) return;
  std::vector<collectives::IndexRange> ranges;
  for (std::int64_t replica = 0; replica < layout.shape.replicas(); ++replica) {
    ranges.push_back(planner::addition_order(layout.shape, replica).range);
  }
  order_.emplace_back(std::move(ranges));
  scratch_.set_ledger(ledger);
  for (const planner::StateBuffer& buffer :
       planner::state_buffers(layout.shape, layout.units, layout.rank)) {
    if (buffer.name == planner::kPartialSums) {
      scratch_.take(static_cast<std::size_t>(buffer.bytes));
    }
  }
}

std::span<std::byte> ReplicaSums::output(const Part& part) const {
  const std::span<std::byte> all = sums_.whole(part.offset, part.count);
  if (collective_ == Collective::kAllReduce) return all;
  const std::size_t own = all.size() / static_cast<std::size_t>(layout_.summed_over->size());
  return all.subspan(static_cast<std::size_t>(layout_.summed_over->rank()) * own, own);
}

void ReplicaSums::start(std::int64_t offset, std::int64_t count) {
  if (layout_.summed_over == nullptr || count == 0) return;
  if (!std::exchange(started_, true) && skips_first_) return;
  const Part part{offset, count};
  if (!even_) {
    deferred_.push_back(part);
    return;
  }
  const std::span<std::byte> in = sums_.whole(offset, count);
  layout_.device.before_message();
  pending_.push_back(layout_.summed_over->start(
      {collective_, in, output(part), DType::kFloat32, ReduceOp::kSum}, algorithm(in.size())));
}

Algorithm ReplicaSums::algorithm(std::size_t bytes) const {
  const planner::StateShape& shape = layout_.shape;
  if (shape.bucket_algorithm != Algorithm::kAuto) return shape.bucket_algorithm;
  return store_algorithm(layout_, *layout_.summed_over, collective_, bytes);
}

void ReplicaSums::exchange(const Part& part) {
  collectives::Accumulator mine(sums_.order().range, sums_.order().total,
                                static_cast<std::size_t>(part.count), DType::kFloat32,
                                sums_.left(part.offset, part.count));
  const bool direct =
      layout_.groups.is_direct(layout_.summed_over) && layout_.summed_over->shares_memory();
  const Algorithm algorithm = direct ? Algorithm::kDirect : Algorithm::kPairwise;
  if (collective_ == Collective::kAllReduce) {
    canonical_all_reduce(*layout_.summed_over, scratch_, order_.front(), mine, output(part),
                         ReduceOp::kSum, algorithm);
  } else {
    canonical_reduce_scatter(*layout_.summed_over, scratch_, order_.front(), mine, output(part),
                             ReduceOp::kSum, algorithm);
  }
}

double ReplicaSums::finish() {
  double waited_s = 0;
  for (collectives::Work& work : pending_) waited_s += timed_wait(work);
  pending_.clear();
  const auto start = std::chrono::steady_clock::now();
  for (const Part& part : deferred_) exchange(part);
  deferred_.clear();
  started_ = false;
  return waited_s + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace nqd::engine
