#include "engine/models/transformer/unit_context.h"

#include <type_traits>

namespace nqd::engine {

template <typename S>
float* UnitContext<S>::reduce_partial() {
  if (group.sequence_parallel()) {
    group.sum_scatter<float>(
        partial(), {workspace.scattered, static_cast<std::size_t>(shape.residual_elements())});
  } else {
    group.sum(partial());
  }
  return reduced();
}

template <typename S>
const S* UnitContext<S>::norm_gradient() {
  const float* const sums = reduced();
  if constexpr (std::is_same_v<S, float>) {
    return sums;
  } else {
    kernels.narrow(workspace.d_norm, sums, shape.residual_elements());
    return workspace.d_norm;
  }
}

template <typename S>
const S* UnitContext<S>::norm_gradient_of(std::span<const StackedBlock> blocks) {
  if constexpr (!std::is_same_v<S, float>) {
    if (products.fuses() && group.size() == 1 && blocks.size() == 1) {
      const StackedBlock& one = blocks.front();
      products.run({shape.rows, shape.hidden, one.width, one.a, one.b,
                    result(workspace.d_norm, shape.hidden)});
      return workspace.d_norm;
    }
  }
  products.run_stacked(workspace.partial, shape.rows, shape.hidden, blocks, group.size());
  reduce_partial();
  return norm_gradient();
}

template <typename S>
const S* UnitContext<S>::gather_rows(const S* part, S* out) {
  if (!group.sequence_parallel()) return part;
  group.gather<S>({part, static_cast<std::size_t>(shape.residual_elements())},
                  {out, static_cast<std::size_t>(shape.rows * shape.hidden)});
  return out;
}

template <typename S>
const S* UnitContext<S>::branch_gradient(S* out, const S* stream, const Pass& pass,
                                         std::int64_t layer, cpu::DropoutSite site) {
  const bool split = group.sequence_parallel();
  const std::optional<cpu::Dropout> masks = dropout(pass, layer, site);
  if (split && !masks) {
    gather_rows(stream, out);
    return stream;
  }
  S* const part = split ? reinterpret_cast<S*>(workspace.scattered) : out;
  if (masks) {
    kernels.apply_dropout(part, stream, *masks, first_row_of_step(pass) * shape.hidden,
                          shape.residual_elements());
  } else {
    device.copy(part, stream, static_cast<std::size_t>(shape.residual_elements()) * sizeof(S));
  }
  gather_rows(part, out);
  return part;
}

template <typename S>
void UnitContext<S>::drop_out_embedding(S* stream, const Pass& pass) {
  const auto masks = dropout(pass, 0, cpu::DropoutSite::kEmbedding);
  if (!masks) return;
  kernels.apply_dropout(stream, stream, *masks, first_row_of_step(pass) * shape.hidden,
                        shape.residual_elements());
}

template <typename S>
void UnitContext<S>::norm_forward(const NormBuffers<S>& out, const S* in, const S* weight,
                                  const S* bias) {
  if (shape.layer_norm) {
    kernels.layer_norm_forward(out.output, out.mean, out.rstd, in, weight, bias, norm_shape());
  } else {
    kernels.rms_norm_forward(out.output, out.rstd, in, weight, norm_shape());
  }
}

template <typename S>
void UnitContext<S>::norm_backward_input(S* d_in, const S* residual, const S* d_out, const S* in,
                                         const S* weight, const NormBuffers<S>& kept) {
  if (shape.layer_norm) {
    kernels.layer_norm_backward_input(d_in, residual, d_out, in, weight, kept.mean, kept.rstd,
                                      norm_shape());
  } else {
    kernels.rms_norm_backward_input(d_in, residual, d_out, in, weight, kept.rstd, norm_shape());
  }
}

template <typename S>
void UnitContext<S>::norm_backward_weight(float* d_weight, float* d_bias, const S* d_out,
                                          const S* in, const NormBuffers<S>& kept) {
  if (shape.layer_norm) {
    kernels.layer_norm_backward_weight(d_weight, d_bias, d_out, in, kept.mean, kept.rstd,
                                       norm_shape(), shape.blocks);
  } else {
    kernels.rms_norm_backward_weight(d_weight, d_out, in, kept.rstd, norm_shape(), shape.blocks);
  }
}

template struct UnitContext<float>;
template struct UnitContext<BFloat16>;
template struct UnitContext<Float16>;

std::int64_t offset_of(const planner::LocalUnit& unit, std::string_view suffix) {
  const std::string prefix =
      unit.role == planner::UnitRole::kLayer ? unit.name + "." : std::string();
  for (const planner::LocalTensor& tensor : unit.tensors) {
    if (std::string_view(tensor.full.name).substr(prefix.size()) == suffix) return tensor.offset;
  }
  return -1;
}

ReplicatedTensors::ReplicatedTensors(const planner::LocalUnit& unit) {
  for (const planner::LocalTensor& tensor : unit.tensors) {
    if (!planner::sums_over_rows(tensor.full)) continue;
    entries_.push_back({tensor.offset, elements_, tensor.elements()});
    elements_ += tensor.elements();
  }
}

float* ReplicatedTensors::at(float* message, std::int64_t offset) const {
  for (const Entry& entry : entries_) {
    if (entry.offset == offset) return message + entry.place;
  }
  return nullptr;
}

void ReplicatedTensors::add(Device& device, float* gradients, const float* message) const {
  for (const Entry& entry : entries_) {
    device.add(gradients + entry.offset, message + entry.place, entry.count);
  }
}

}  // namespace nqd::engine
