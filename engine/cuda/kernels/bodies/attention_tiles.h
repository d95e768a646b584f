// What the passes of attention share: tiles of a head's rows in shared memory, which scores are
// visible, and the place of a probability in the dropout stream.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "engine/cpu/blocked_attention.h"
#include "engine/cuda/kernels/bodies/epilogue.h"

namespace nqd::engine::cuda::bodies {

inline constexpr int kAttentionThreads = 128;

// R rows of a head, D columns of which the first `width` exist. A row is a float4 longer than D, so
// that the rows that a warp reads at a time begin in different banks.
template <int D, int R>
struct HeadTile {
  float of[R][D + 4];

  // Rows [first, first + R) of those up to `end`, times `scale`; zeros elsewhere.
  template <typename Block, typename S>
  NQD_DEVICE void fill(int thread, const S* head, std::int64_t stride, std::int64_t first,
                       std::int64_t end, std::int64_t width, float scale, bool packed) {
    if (packed) {
      fill_by<Block, kPackWidth<S>>(thread, head, stride, first, end, width, scale);
    } else {
      fill_by<Block, 1>(thread, head, stride, first, end, width, scale);
    }
  }

 private:
  template <typename Block, int kWidth, typename S>
  NQD_DEVICE void fill_by(int thread, const S* head, std::int64_t stride, std::int64_t first,
                          std::int64_t end, std::int64_t width, float scale) {
    constexpr int kPacksOfRow = D / kWidth;
    for (int i = thread; i < R * kPacksOfRow; i += kAttentionThreads) {
      const int row = i / kPacksOfRow;
      const int column = i % kPacksOfRow * kWidth;
      Pack<S, kWidth> pack = {};
      if (first + row < end && column < width) {
        pack = load<kWidth>(head + (first + row) * stride + column);
      }
      for (int k = 0; k < kWidth; ++k) {
        of[row][column + k] = Block::widen(pack.values[k]) * scale;
      }
    }
  }
};

// Row a of one tile times row b of another.
template <int D, int R>
NQD_DEVICE float dot(const HeadTile<D, R>& left, int a, const HeadTile<D, R>& right, int b) {
  constexpr int kStep = 16;
  float sum = 0;
  NQD_NO_UNROLL
  for (int first = 0; first < D; first += kStep) {
    NQD_UNROLL
    for (int i = first; i < first + kStep; ++i) sum += left.of[a][i] * right.of[b][i];
  }
  return sum;
}

// How the threads of a block share a tile of R rows: thread t has row t / kOfRow, and of its D
// columns those from t mod kOfRow on in steps of kOfRow. Scores of a row are shared out likewise.
template <int D, int R>
struct TileShare {
  static constexpr int kOfRow = kAttentionThreads / R;
  static constexpr int kColumns = D / kOfRow;
  static_assert(kAttentionThreads % R == 0 && D % kOfRow == 0);

  static NQD_DEVICE int row(int thread) { return thread / kOfRow; }
  static NQD_DEVICE int lane(int thread) { return thread % kOfRow; }
};

struct AttentionShape {
  cpu::AttentionLayout layout;
  float scale = 1;  // 1 / √head_width
  bool packed = false;
  bool drops = false;
  cpu::DropoutStream stream = {};
  std::int64_t first_sequence = 0;
  std::int64_t first_head = 0;
  std::int64_t model_heads = 0;

  NQD_HOST_DEVICE bool sees(std::int64_t query, std::int64_t key) const {
    return key < layout.sequence && query < layout.sequence && (!layout.causal || key <= query);
  }
  // The factor of a probability; b and head count on this rank.
  NQD_DEVICE float factor(std::int64_t b, std::int64_t head, std::int64_t query,
                          std::int64_t key) const {
    if (!drops) return 1.0F;
    const std::int64_t model_head = (first_sequence + b) * model_heads + first_head + head;
    const std::int64_t row = model_head * layout.sequence + query;
    return dropout_factor(stream, static_cast<std::uint64_t>(row * layout.sequence + key));
  }
};

template <typename... S>
AttentionShape attention_shape(const cpu::AttentionLayout& layout,
                               const cpu::AttentionDropout* dropout, const S*... pointers) {
  AttentionShape shape{.layout = layout};
  shape.scale = 1.0F / std::sqrt(static_cast<float>(layout.head_width));
  const auto whole_packs = [](std::int64_t n) { return n % 8 == 0; };  // of any storage
  shape.packed = are_aligned(pointers...) && whole_packs(layout.head_width) &&
                 whole_packs(layout.q_stride) && whole_packs(layout.kv_stride) &&
                 whole_packs(layout.out_stride);
  if (dropout == nullptr) return shape;
  shape.drops = true;
  shape.stream = cpu::stream_of(dropout->dropout);
  shape.first_sequence = dropout->first_sequence;
  shape.first_head = dropout->first_head;
  shape.model_heads = dropout->model_heads;
  return shape;
}

// Calls use.template operator()<D>() with the narrowest tile that holds a head.
template <typename Use>
void with_head_tile(std::int64_t head_width, const Use& use) {
  if (head_width <= 64) {
    use.template operator()<64>();
  } else if (head_width <= 128) {
    use.template operator()<128>();
  } else if (head_width <= 256) {
    use.template operator()<256>();
  } else {
    throw Error(
        ExitCode::kUsage, "NQD3062",
        "attention on a GPU takes heads of at most 256 columns, not " + std::to_string(head_width),
        "take more heads: model.heads");
  }
}

}  // namespace nqd::engine::cuda::bodies
