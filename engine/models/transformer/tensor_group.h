// The messages of a model in its tensor-parallel group; none, and no cost, on one rank.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/models/transformer/context.h"

namespace nqd::engine {

class TensorGroup {
 public:
  // Canonical sums add the ranks' parts in the tree over ranks. Where the ranks share memory every
  // call is direct. Messages are of memory of `device`, which must outlive this object, as its
  // operations left it.
  TensorGroup(const TensorParallel& tp, bool canonical, Device& device)
      : tp_(tp), canonical_(canonical), device_(&device) {}

  int rank() const { return tp_.rank; }
  int size() const { return tp_.size; }
  bool sequence_parallel() const { return tp_.sequence_parallel && tp_.size > 1; }

  // In place, on every rank.
  template <typename S>
  void sum(std::span<S> values) {
    run({.collective = collectives::Collective::kAllReduce,
         .in = std::as_bytes(values),
         .out = std::as_writable_bytes(values),
         .type = type_of<S>()});
  }
  // The same of gradients to which each rank has added its own rows alone (sequence parallelism).
  void sum_replicated(std::span<float> gradients) {
    if (!tp_.missing_norm_sum_for_test) sum(gradients);
  }
  void maximum(std::span<float> values);
  // `out` receives this rank's part of the sum.
  template <typename S>
  void sum_scatter(std::span<const S> values, std::span<S> out) {
    run({.collective = collectives::Collective::kReduceScatter,
         .in = std::as_bytes(values),
         .out = std::as_writable_bytes(out),
         .type = type_of<S>()});
  }
  // `out` receives the parts of all ranks in their order, of equal length.
  template <typename S>
  void gather(std::span<const S> part, std::span<S> out) {
    run({.collective = collectives::Collective::kAllGather,
         .in = std::as_bytes(part),
         .out = std::as_writable_bytes(out),
         .type = type_of<S>()});
  }

 private:
  void run(const collectives::CollectiveCall& call);
  // Whether a seeded fault leaves out this call, whose rank then has its own part alone.
  bool leaves_out(const collectives::CollectiveCall& call);

  TensorParallel tp_;
  bool canonical_;
  Device* device_;
  int sums_ = 0;  // while a fault is seeded
};

}  // namespace nqd::engine
