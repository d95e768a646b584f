#include "engine/models/transformer/unit_context.h"

#include <algorithm>

#include "engine/cpu/convert.h"
#include "engine/cpu/norms.h"

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
    for_ranges(shape.residual_elements(), [&](std::int64_t begin, std::int64_t end) {
      cpu::narrow_all(workspace.d_norm + begin, sums + begin, end - begin);
    });
    return workspace.d_norm;
  }
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
  for_ranges(shape.residual_rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.hidden;
    const std::int64_t count = (end - begin) * shape.hidden;
    if (masks) {
      const std::int64_t first = first_row_of_step(pass) * shape.hidden + at;
      cpu::apply_dropout(part + at, stream + at, *masks, first, count);
    } else {
      std::copy_n(stream + at, count, part + at);
    }
  });
  gather_rows(part, out);
  return part;
}

template <typename S>
void UnitContext<S>::drop_out_embedding(S* stream, const Pass& pass) {
  const auto masks = dropout(pass, 0, cpu::DropoutSite::kEmbedding);
  if (!masks) return;
  const std::int64_t first = first_row_of_step(pass) * shape.hidden;
  for_ranges(shape.residual_elements(), [&](std::int64_t begin, std::int64_t end) {
    cpu::apply_dropout(stream + begin, stream + begin, *masks, first + begin, end - begin);
  });
}

template <typename S>
void UnitContext<S>::norm_forward(const NormBuffers<S>& out, const S* in, const S* weight,
                                  const S* bias) {
  for_ranges(shape.residual_rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.hidden;
    const cpu::NormShape rows{end - begin, shape.hidden, shape.norm_epsilon};
    if (shape.layer_norm) {
      cpu::layer_norm_forward(out.output + at, out.mean + begin, out.rstd + begin, in + at, weight,
                              bias, rows);
    } else {
      cpu::rms_norm_forward(out.output + at, out.rstd + begin, in + at, weight, rows);
    }
  });
}

template <typename S>
void UnitContext<S>::norm_backward_input(S* d_in, const S* residual, const S* d_out, const S* in,
                                         const S* weight, const NormBuffers<S>& kept) {
  for_ranges(shape.residual_rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.hidden;
    const S* const past = residual == nullptr ? nullptr : residual + at;
    const cpu::NormShape rows{end - begin, shape.hidden, shape.norm_epsilon};
    if (shape.layer_norm) {
      cpu::layer_norm_backward_input(d_in + at, past, d_out + at, in + at, weight,
                                     kept.mean + begin, kept.rstd + begin, rows);
    } else {
      cpu::rms_norm_backward_input(d_in + at, past, d_out + at, in + at, weight, kept.rstd + begin,
                                   rows);
    }
  });
}

template <typename S>
void UnitContext<S>::add_column_sums(float* sums, const S* x, std::int64_t rows, std::int64_t width,
                                     std::int64_t stride, std::int64_t blocks) {
  for_ranges(width, [&](std::int64_t begin, std::int64_t end) {
    cpu::add_column_sums(sums + begin, x + begin, rows, end - begin, stride, blocks);
  });
}

template <typename S>
void UnitContext<S>::norm_backward_weight(float* d_weight, float* d_bias, const S* d_out,
                                          const S* in, const NormBuffers<S>& kept) {
  for_ranges(shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    const cpu::NormShape columns{shape.residual_rows, end - begin, shape.norm_epsilon,
                                 shape.hidden};
    if (shape.layer_norm) {
      cpu::layer_norm_backward_weight(d_weight + begin, d_bias + begin, d_out + begin, in + begin,
                                      kept.mean, kept.rstd, columns, shape.blocks);
    } else {
      cpu::rms_norm_backward_weight(d_weight + begin, d_out + begin, in + begin, kept.rstd, columns,
                                    shape.blocks);
    }
  });
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

void ReplicatedTensors::add(float* gradients, const float* message) const {
  for (const Entry& entry : entries_) {
    float* const to = gradients + entry.offset;
    const float* const from = message + entry.place;
    for (std::int64_t i = 0; i < entry.count; ++i) to[i] += from[i];
  }
}

}  // namespace nqd::engine
