// engine/cpu/activations.h on the device.
#pragma once

#include <cmath>

#include "engine/cpu/gelu.h"
#include "engine/cuda/kernels/bodies/elements.h"

namespace nqd::engine::cuda::bodies {

NQD_DEVICE inline float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

NQD_DEVICE inline float gelu_sigmoid(float x) {
  constexpr auto kCubic = static_cast<float>(cpu::kGeluCubic);
  return sigmoid(static_cast<float>(cpu::kGeluTwiceScale) * (x + kCubic * x * x * x));
}

NQD_DEVICE inline float gelu_slope(float x) {
  constexpr auto kCubic = static_cast<float>(3 * cpu::kGeluCubic);
  const float s = gelu_sigmoid(x);
  const float inner = static_cast<float>(cpu::kGeluTwiceScale) * (1.0F + kCubic * x * x);
  return s + x * s * (1.0F - s) * inner;
}

template <typename S>
struct Gelu {
  static constexpr const char* kName = "gelu";
  static constexpr int kWidth = kPackWidth<S>;
  S* y;
  const S* x;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    Pack<S, kCount> pack = load<kCount>(x + i);
    for (S& value : pack.values) {
      const float in = Block::widen(value);
      value = Block::template narrow<S>(in * gelu_sigmoid(in));
    }
    store(y + i, pack);
  }
};

template <typename S>
struct GeluBackward {
  static constexpr const char* kName = "gelu_backward";
  static constexpr int kWidth = kPackWidth<S>;
  S* dx;
  const S* dy;
  const S* x;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const Pack<S, kCount> in = load<kCount>(x + i);
    Pack<S, kCount> d = load<kCount>(dy + i);
    for (int k = 0; k < kCount; ++k) {
      const float slope = gelu_slope(Block::widen(in.values[k]));
      d.values[k] = Block::template narrow<S>(Block::widen(d.values[k]) * slope);
    }
    store(dx + i, d);
  }
};

// Element i of y [rows, width] comes from elements `gate` and `gate + width` of its row of
// x [rows, 2 · width].
NQD_HOST_DEVICE inline std::int64_t gate_of(std::int64_t i, std::int64_t width) {
  return i + place_of(i, width).row * width;
}

template <typename S>
struct Swiglu {
  static constexpr const char* kName = "swiglu";
  static constexpr int kWidth = kPackWidth<S>;
  S* y;
  const S* x;
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const std::int64_t gate = gate_of(i, width);
    const Pack<S, kCount> g = load<kCount>(x + gate);
    Pack<S, kCount> out = load<kCount>(x + gate + width);
    for (int k = 0; k < kCount; ++k) {
      const float in = Block::widen(g.values[k]);
      out.values[k] = Block::template narrow<S>(in * sigmoid(in) * Block::widen(out.values[k]));
    }
    store(y + i, out);
  }
};

template <typename S>
struct SwigluBackward {
  static constexpr const char* kName = "swiglu_backward";
  static constexpr int kWidth = kPackWidth<S>;
  S* dx;
  const S* dy;
  const S* x;
  std::int64_t width;

  template <typename Block, int kCount>
  NQD_DEVICE void at(std::int64_t i) const {
    const std::int64_t gate = gate_of(i, width);
    Pack<S, kCount> g = load<kCount>(x + gate);
    Pack<S, kCount> up = load<kCount>(x + gate + width);
    const Pack<S, kCount> d = load<kCount>(dy + i);
    for (int k = 0; k < kCount; ++k) {
      const float in = Block::widen(g.values[k]);
      const float gradient = Block::widen(d.values[k]);
      const float s = sigmoid(in);
      const float slope = s + in * s * (1.0F - s);
      g.values[k] = Block::template narrow<S>(gradient * Block::widen(up.values[k]) * slope);
      up.values[k] = Block::template narrow<S>(gradient * (in * s));
    }
    store(dx + gate, g);
    store(dx + gate + width, up);
  }
};

template <typename S, typename Run>
void gelu(const Run& run, S* y, const S* x, std::int64_t n) {
  run_elements(run, Gelu<S>{y, x}, n, are_aligned(y, x));
}
template <typename S, typename Run>
void gelu_backward(const Run& run, S* dx, const S* dy, const S* x, std::int64_t n) {
  run_elements(run, GeluBackward<S>{dx, dy, x}, n, are_aligned(dx, dy, x));
}
template <typename S, typename Run>
void swiglu(const Run& run, S* y, const S* x, std::int64_t rows, std::int64_t width) {
  const bool packed = are_aligned(y, x) && width % kPackWidth<S> == 0;
  run_elements(run, Swiglu<S>{y, x, width}, rows * width, packed);
}
template <typename S, typename Run>
void swiglu_backward(const Run& run, S* dx, const S* dy, const S* x, std::int64_t rows,
                     std::int64_t width) {
  const bool packed = are_aligned(dx, dy, x) && width % kPackWidth<S> == 0;
  run_elements(run, SwigluBackward<S>{dx, dy, x, width}, rows * width, packed);
}

}  // namespace nqd::engine::cuda::bodies
