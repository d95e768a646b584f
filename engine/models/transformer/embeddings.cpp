#include "engine/models/transformer/embeddings.h"

namespace nqd::engine {
namespace {

cpu::VocabularyRange vocabulary(const RankShape& shape) {
  return {shape.first_token, shape.first_token + shape.tokens};
}

}  // namespace

template <typename S>
void TokenEmbedding<S>::forward(S* out, const S* table, const std::int32_t* tokens,
                                const Pass& pass) {
  const RankShape& s = c_.shape;
  // Messages travel in the workspace, which the other ranks can reach.
  S* const rows = c_.group.size() == 1 ? out : reinterpret_cast<S*>(c_.workspace.partial);
  c_.kernels.token_lookup(rows, tokens, table, vocabulary(s), s.rows, s.hidden);
  const auto all = static_cast<std::size_t>(s.rows * s.hidden);
  const auto own = static_cast<std::size_t>(s.residual_elements());
  if (c_.group.sequence_parallel()) {
    S* const part = reinterpret_cast<S*>(c_.workspace.scattered);
    c_.group.template sum_scatter<S>({rows, all}, {part, own});
    c_.device.copy(out, part, own * sizeof(S));
  } else if (c_.group.size() > 1) {
    c_.group.template sum<S>({rows, all});
    c_.device.copy(out, rows, all * sizeof(S));
  }
  if (drops_out_) c_.drop_out_embedding(out, pass);
}

template <typename S>
void TokenEmbedding<S>::backward_input(S* stream, const Pass& pass) {
  if (drops_out_) c_.drop_out_embedding(stream, pass);
}

template <typename S>
void TokenEmbedding<S>::backward_weight(float* table_gradient, const S* stream,
                                        const std::int32_t* tokens) {
  const S* const rows = c_.gather_rows(stream, c_.workspace.gathered);
  c_.kernels.token_lookup_backward(table_gradient, rows, tokens, vocabulary(c_.shape),
                                   c_.shape.rows, c_.shape.hidden);
}

template <typename S>
void PositionEmbedding<S>::forward(S* x, const S* table, const Pass& pass) {
  const RankShape& s = c_.shape;
  c_.kernels.add_positions(x, table, s.first_row, s.residual_rows, s.sequence, s.hidden);
  c_.drop_out_embedding(x, pass);
}

template <typename S>
void PositionEmbedding<S>::backward_input(S* stream, const Pass& pass) {
  c_.drop_out_embedding(stream, pass);
}

template <typename S>
void PositionEmbedding<S>::backward_weight(float* table_gradient, const S* stream) {
  const RankShape& s = c_.shape;
  if (!c_.group.sequence_parallel()) {
    return c_.kernels.add_positions_backward(table_gradient, stream, s.first_row, s.residual_rows,
                                             s.sequence, s.hidden, s.blocks);
  }
  const std::int64_t elements = s.sequence * s.hidden;
  float* const sums = c_.workspace.positions;
  c_.device.zero(sums, elements);
  c_.kernels.add_positions_backward(sums, stream, s.first_row, s.residual_rows, s.sequence,
                                    s.hidden, s.blocks);
  c_.group.template sum<float>({sums, static_cast<std::size_t>(elements)});
  c_.device.add(table_gradient, sums, elements);
}

template class TokenEmbedding<float>;
template class TokenEmbedding<BFloat16>;
template class TokenEmbedding<Float16>;
template class PositionEmbedding<float>;
template class PositionEmbedding<BFloat16>;
template class PositionEmbedding<Float16>;

}  // namespace nqd::engine
