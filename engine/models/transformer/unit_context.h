// What every unit of a chunk works with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/device/device.h"
#include "engine/models/transformer/chunk_buffers.h"
#include "engine/models/transformer/context.h"
#include "engine/models/transformer/rank_shape.h"
#include "engine/models/transformer/tensor_group.h"
#include "planner/layout/rank_units.h"

namespace nqd::engine {

template <typename S>
struct UnitContext {
  RankShape shape;
  TensorGroup group;
  Workspace<S> workspace;
  Device& device;
  Kernels<S>& kernels;
  Products& products;

  std::optional<cpu::Dropout> dropout(const Pass& pass, std::int64_t layer,
                                      cpu::DropoutSite site) const {
    if (!pass.training || shape.options.dropout == 0) return std::nullopt;
    return cpu::Dropout{shape.options.dropout, shape.seed, pass.step, layer, site, pass.step_at};
  }
  // Of the residual stream's first row here, in the whole step.
  std::int64_t first_row_of_step(const Pass& pass) const {
    return pass.first_sequence * shape.sequence + shape.first_row;
  }
  cpu::NormShape norm_shape() const {
    return {shape.residual_rows, shape.hidden, shape.norm_epsilon};
  }
  std::span<float> partial() {
    return {workspace.partial, static_cast<std::size_t>(shape.rows * shape.hidden)};
  }

  // Where reduce_partial leaves its result.
  float* reduced() const {
    return group.sequence_parallel() ? workspace.scattered : workspace.partial;
  }
  // Sums the ranks' parts in `partial`; the result, [R, h], is where this returns.
  float* reduce_partial();
  // What reduce_partial has left, the gradient of a norm's output, as S.
  const S* norm_gradient();
  // The same of the sum of the blocks' products, each divided by tp, which it computes first.
  const S* norm_gradient_of(std::span<const StackedBlock> blocks);
  // `part` [R, h] of all ranks as [rows, h]: gathered into `out`, or, where rows are not split, the
  // part itself.
  const S* gather_rows(const S* part, S* out);
  // The gradient `stream` of a branch's end [R, h] behind its dropout, gathered into `out`
  // [rows, h]; returns this rank's rows of it.
  const S* branch_gradient(S* out, const S* stream, const Pass& pass, std::int64_t layer,
                           cpu::DropoutSite site);

  // The dropout of the last embedding, over the rows of the stream, in place; forward and backward
  // alike.
  void drop_out_embedding(S* stream, const Pass& pass);

  void norm_forward(const NormBuffers<S>& out, const S* in, const S* weight, const S* bias);
  // d_in = residual (null: 0) + the gradient through the norm.
  void norm_backward_input(S* d_in, const S* residual, const S* d_out, const S* in, const S* weight,
                           const NormBuffers<S>& kept);
  void norm_backward_weight(float* d_weight, float* d_bias, const S* d_out, const S* in,
                            const NormBuffers<S>& kept);
};

// Element offset of a tensor in its unit; -1 where the model has none. `suffix` is what follows
// "layers.3." for a layer, the whole name else.
std::int64_t offset_of(const planner::LocalUnit& unit, std::string_view suffix);

// A pointer to the tensor at `offset`, null for -1.
template <typename T>
T* tensor_at(T* unit, std::int64_t offset) {
  return offset < 0 ? nullptr : unit + offset;
}

// How the gradients that ranks add up with sequence parallelism (planner::sums_over_rows) lie in a
// unit's packed message.
class ReplicatedTensors {
 public:
  explicit ReplicatedTensors(const planner::LocalUnit& unit);

  std::int64_t elements() const { return elements_; }
  // Place of the tensor that begins at `offset` of the unit, in the message.
  float* at(float* message, std::int64_t offset) const;
  // Adds the message to the unit's gradients.
  void add(Device& device, float* gradients, const float* message) const;

 private:
  struct Entry {
    std::int64_t offset, place, count;
  };
  std::vector<Entry> entries_;
  std::int64_t elements_ = 0;
};

}  // namespace nqd::engine
