// The two embeddings of a decoder: tokens, of a vocabulary split over the tp ranks, and learned
// positions. The last of them that a model has also drops out.
#pragma once

#include <cstdint>

#include "engine/models/transformer/unit_context.h"

namespace nqd::engine {

template <typename S>
class TokenEmbedding {
 public:
  TokenEmbedding(UnitContext<S>& context, bool drops_out) : c_(context), drops_out_(drops_out) {}

  // out [R, h] from tokens [rows].
  void forward(S* out, const S* table, const std::int32_t* tokens, const Pass& pass);
  // `stream` becomes the gradient of the table's rows.
  void backward_input(S* stream, const Pass& pass);
  void backward_weight(float* table_gradient, const S* stream, const std::int32_t* tokens);

 private:
  UnitContext<S>& c_;
  bool drops_out_;
};

template <typename S>
class PositionEmbedding {
 public:
  explicit PositionEmbedding(UnitContext<S>& context) : c_(context) {}

  // x [R, h] in place.
  void forward(S* x, const S* table, const Pass& pass);
  void backward_input(S* stream, const Pass& pass);
  void backward_weight(float* table_gradient, const S* stream);

 private:
  UnitContext<S>& c_;
};

}  // namespace nqd::engine
