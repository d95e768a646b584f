// engine/cpu/norms.h on the device. A row's sums: thread t adds packs t, t + 128, … of the row,
// then the block's threads are merged.
#pragma once

#include <cmath>

#include "engine/cpu/norms.h"
#include "engine/cuda/kernels/bodies/column_sums.h"

namespace nqd::engine::cuda::bodies {

inline constexpr int kNormThreads = 128;

// What both norms of both directions share: a block a row. kHeld packs of a thread, at least as
// many as there are, stay in registers from one sum over the row to the next; 0: each reads them
// again.
template <int kWidth, int kHeld>
struct RowLoop {
  static constexpr int kThreads = kNormThreads;
  std::int64_t rows;
  std::int64_t width;

  // use(column, p) for the packs of one thread, p = 0, 1, … where they are held.
  template <typename Use>
  NQD_DEVICE void packs(int thread, const Use& use) const {
    if constexpr (kHeld > 0) {
      // Constant bounds: what is indexed by p stays in registers.
      NQD_UNROLL
      for (int p = 0; p < kHeld; ++p) {
        const std::int64_t i = (p * kThreads + thread) * kWidth;
        if (i < width) use(i, p);
      }
    } else {
      for (std::int64_t i = thread * kWidth; i < width; i += kThreads * kWidth) use(i, 0);
    }
  }
  // The block's sum of term(thread, column, p), each of a pack.
  template <typename Block, typename Term>
  NQD_DEVICE float sum(Block& block, const Term& term) const {
    typename Block::template Own<float> own;
    block.last([&](int thread) {
      float sum = 0;
      packs(thread, [&](std::int64_t i, int p) { sum += term(thread, i, p); });
      own[thread] = sum;
    });
    return block.reduce(own, Add{});
  }
};

// A thread's packs of a row.
template <typename S, int kWidth, int kHeld>
struct RowPacks {
  Pack<S, kWidth> held[kHeld > 0 ? kHeld : 1];

  NQD_DEVICE void hold(const RowLoop<kWidth, kHeld>& loop, int thread, const S* row) {
    if constexpr (kHeld > 0) {
      loop.packs(thread, [&](std::int64_t i, int p) { held[p] = load<kWidth>(row + i); });
    }
  }
  NQD_DEVICE Pack<S, kWidth> at(const S* row, std::int64_t i, int p) const {
    if constexpr (kHeld > 0) {
      return held[p];
    } else {
      return load<kWidth>(row + i);
    }
  }
};

template <typename S, bool kCentred, int kWidth, int kHeld>
struct NormForward {
  static constexpr int kThreads = kNormThreads;
  static constexpr const char* kName = kCentred ? "layer_norm_forward" : "rms_norm_forward";
  RowLoop<kWidth, kHeld> loop;
  S* y;
  float* mean;  // null unless centred
  float* rstd;
  const S* x;
  const S* weight;
  const S* bias;  // null unless centred
  float epsilon;

  std::int64_t blocks() const { return loop.rows; }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const std::int64_t row = block.index();
    const S* in = x + row * loop.width;
    S* out = y + row * loop.width;
    const float inverse_width = 1.0F / static_cast<float>(loop.width);
    typename Block::template Own<RowPacks<S, kWidth, kHeld>> packs;
    block.last([&](int thread) { packs[thread].hold(loop, thread, in); });
    float m = 0;
    if constexpr (kCentred) {
      m = inverse_width * loop.sum(block, [&](int thread, std::int64_t i, int p) {
        const Pack<S, kWidth> pack = packs[thread].at(in, i, p);
        float sum = 0;
        for (int k = 0; k < kWidth; ++k) sum += Block::widen(pack.values[k]);
        return sum;
      });
    }
    const float variance = inverse_width * loop.sum(block, [&](int thread, std::int64_t i, int p) {
      const Pack<S, kWidth> pack = packs[thread].at(in, i, p);
      float sum = 0;
      for (int k = 0; k < kWidth; ++k) {
        const float centred = Block::widen(pack.values[k]) - m;
        sum += centred * centred;
      }
      return sum;
    });
    const float r = 1.0F / std::sqrt(variance + epsilon);
    block.last([&](int thread) {
      loop.packs(thread, [&](std::int64_t i, int p) {
        write<Block>(out + i, packs[thread].at(in, i, p), i, m, r);
      });
      if (thread != 0) return;
      if constexpr (kCentred) mean[row] = m;
      rstd[row] = r;
    });
  }

 private:
  template <typename Block>
  NQD_DEVICE void write(S* out, Pack<S, kWidth> pack, std::int64_t column, float m, float r) const {
    const Pack<S, kWidth> w = load<kWidth>(weight + column);
    Pack<S, kWidth> b = {};
    if constexpr (kCentred) b = load<kWidth>(bias + column);
    for (int k = 0; k < kWidth; ++k) {
      float value = (Block::widen(pack.values[k]) - m) * r * Block::widen(w.values[k]);
      if constexpr (kCentred) value += Block::widen(b.values[k]);
      pack.values[k] = Block::template narrow<S>(value);
    }
    store(out, pack);
  }
};

template <typename S, bool kCentred, int kWidth, int kHeld>
struct NormBackwardInput {
  static constexpr int kThreads = kNormThreads;
  static constexpr const char* kName =
      kCentred ? "layer_norm_backward_input" : "rms_norm_backward_input";
  RowLoop<kWidth, kHeld> loop;
  S* dx;
  const S* residual;  // may be null
  const S* dy;
  const S* x;
  const S* weight;
  const float* mean;  // null unless centred
  const float* rstd;

  std::int64_t blocks() const { return loop.rows; }

  // g = dy · weight and z, the normalised value, of a pack.
  struct Terms {
    float g[kWidth];
    float z[kWidth];
  };
  struct Packs {
    RowPacks<S, kWidth, kHeld> dy;
    RowPacks<S, kWidth, kHeld> x;
  };

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const std::int64_t row = block.index() * loop.width;
    const float m = kCentred ? mean[block.index()] : 0.0F;
    const float r = rstd[block.index()];
    const float inverse_width = 1.0F / static_cast<float>(loop.width);
    typename Block::template Own<Packs> packs;
    block.last([&](int thread) {
      packs[thread].dy.hold(loop, thread, dy + row);
      packs[thread].x.hold(loop, thread, x + row);
    });
    const auto terms_at = [&](int thread, std::int64_t i, int p) {
      return terms<Block>(packs[thread].dy.at(dy + row, i, p), packs[thread].x.at(x + row, i, p), i,
                          m, r);
    };
    float g_average = 0;
    if constexpr (kCentred) {
      g_average = inverse_width * loop.sum(block, [&](int thread, std::int64_t i, int p) {
        const Terms at = terms_at(thread, i, p);
        float sum = 0;
        for (int k = 0; k < kWidth; ++k) sum += at.g[k];
        return sum;
      });
    }
    const float gz_average =
        inverse_width * loop.sum(block, [&](int thread, std::int64_t i, int p) {
          const Terms at = terms_at(thread, i, p);
          float sum = 0;
          for (int k = 0; k < kWidth; ++k) sum += at.g[k] * at.z[k];
          return sum;
        });
    block.last([&](int thread) {
      loop.packs(thread, [&](std::int64_t i, int p) {
        const Terms at = terms_at(thread, i, p);
        Pack<S, kWidth> past = {};
        if (residual != nullptr) past = load<kWidth>(residual + row + i);
        Pack<S, kWidth> out;
        for (int k = 0; k < kWidth; ++k) {
          const float own = r * (at.g[k] - g_average - at.z[k] * gz_average);
          const float sum = residual == nullptr ? own : Block::widen(past.values[k]) + own;
          out.values[k] = Block::template narrow<S>(sum);
        }
        store(dx + row + i, out);
      });
    });
  }

 private:
  template <typename Block>
  NQD_DEVICE Terms terms(const Pack<S, kWidth>& d, const Pack<S, kWidth>& in, std::int64_t i,
                         float m, float r) const {
    const Pack<S, kWidth> w = load<kWidth>(weight + i);
    Terms at;
    for (int k = 0; k < kWidth; ++k) {
      at.g[k] = Block::widen(d.values[k]) * Block::widen(w.values[k]);
      at.z[k] = (Block::widen(in.values[k]) - m) * r;
    }
    return at;
  }
};

// Weight gradient, and of a layer norm the bias gradient too.
template <typename S, bool kCentred>
struct NormWeightTerms {
  static constexpr const char* kName =
      kCentred ? "layer_norm_backward_weight" : "rms_norm_backward_weight";
  static constexpr int kSums = kCentred ? 2 : 1;
  static constexpr int kWidth = kPackWidth<S>;
  const S* dy;
  const S* x;
  const float* mean;  // null unless centred
  const float* rstd;
  std::int64_t stride;

  template <typename Block, int kCount>
  NQD_DEVICE void add(std::int64_t row, std::int64_t column, float (&sums)[kSums][kCount]) const {
    const Pack<S, kCount> d = load<kCount>(dy + row * stride + column);
    const Pack<S, kCount> in = load<kCount>(x + row * stride + column);
    const float m = kCentred ? mean[row] : 0.0F;
    const float r = rstd[row];
    for (int k = 0; k < kCount; ++k) {
      const float gradient = Block::widen(d.values[k]);
      sums[0][k] += gradient * ((Block::widen(in.values[k]) - m) * r);
      if constexpr (kCentred) sums[1][k] += gradient;
    }
  }
};

// Calls use.template operator()<kWidth, kHeld>() for rows of `width` elements of S; kMost are held.
template <typename S, int kMost, typename Use>
void with_row_packs(std::int64_t width, bool packed, const Use& use) {
  constexpr int kWidth = kPackWidth<S>;
  const std::int64_t of_thread = divide_up(width, kNormThreads * kWidth);
  if (!packed) {
    use.template operator()<1, 0>();
  } else if (of_thread <= 2) {
    use.template operator()<kWidth, 2>();
  } else if (of_thread <= kMost) {
    use.template operator()<kWidth, kMost>();
  } else {
    use.template operator()<kWidth, 0>();
  }
}

template <bool kCentred, typename S, typename Run>
void norm_forward(const Run& run, S* y, float* mean, float* rstd, const S* x, const S* weight,
                  const S* bias, const cpu::NormShape& shape) {
  const auto epsilon = static_cast<float>(shape.epsilon);
  const bool packed = are_aligned(y, x, weight, bias) && shape.width % kPackWidth<S> == 0;
  with_row_packs<S, 4>(shape.width, packed, [&]<int kWidth, int kHeld>() {
    run(NormForward<S, kCentred, kWidth, kHeld>{
        {shape.rows, shape.width}, y, mean, rstd, x, weight, bias, epsilon});
  });
}

template <bool kCentred, typename S, typename Run>
void norm_backward_input(const Run& run, S* dx, const S* residual, const S* dy, const S* x,
                         const S* weight, const float* mean, const float* rstd,
                         const cpu::NormShape& shape) {
  const bool packed = are_aligned(dx, residual, dy, x, weight) && shape.width % kPackWidth<S> == 0;
  // Of two tensors: more would halve the blocks that run at a time.
  with_row_packs<S, 2>(shape.width, packed, [&]<int kWidth, int kHeld>() {
    run(NormBackwardInput<S, kCentred, kWidth, kHeld>{
        {shape.rows, shape.width}, dx, residual, dy, x, weight, mean, rstd});
  });
}

template <bool kCentred, typename S, typename Run>
void norm_backward_weight(const Run& run, const Gradients<kCentred ? 2 : 1>& gradients, const S* dy,
                          const S* x, const float* mean, const float* rstd,
                          const cpu::NormShape& shape, std::int64_t blocks, float* scratch) {
  const std::int64_t stride = shape.row_stride();
  const bool packed =
      are_aligned(dy, x) && shape.width % kPackWidth<S> == 0 && stride % kPackWidth<S> == 0;
  add_row_sums(run, NormWeightTerms<S, kCentred>{dy, x, mean, rstd, stride}, gradients, shape.rows,
               shape.width, blocks, scratch, packed);
}

}  // namespace nqd::engine::cuda::bodies
