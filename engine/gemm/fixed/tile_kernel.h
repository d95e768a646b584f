// The tile of kernels.h, written once for every vector type. A kernel's file gives `Vector`, with
//   Type, kLanes, zero(), load(p), broadcast(p), store(p, v), add(a, b), multiply_add(a, b, c)
// as a type of its own (in its unnamed namespace), so that every file has its own instances.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/gemm/fixed/kernels.h"

namespace nqd::engine::fixed {

// kPackedStep: a_k of the packed form, else 0.
template <typename Vector, int kRows, int kVectors, int kPackedStep>
void tile_kernel(const Tile& t) {
  using Type = typename Vector::Type;
  constexpr int kLanes = Vector::kLanes;
  Type sums[kRows][kVectors];
  if (t.start == nullptr) {
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Vector::zero();
    }
  } else {
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Vector::load(t.start + r * t.start_stride + v * kLanes);
      }
    }
  }
  const float* a = t.a;
  const float* b = t.b;
  const std::int64_t a_row = kPackedStep > 0 ? 1 : t.a_row;
  const std::int64_t a_k = kPackedStep > 0 ? kPackedStep : t.a_k;
  const std::int64_t b_k = t.b_k;
#pragma GCC unroll 4
  for (std::int64_t k = t.k; k > 0; --k) {
    Type columns[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) columns[v] = Vector::load(b + v * kLanes);
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      const Type row = Vector::broadcast(a + r * a_row);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Vector::multiply_add(row, columns[v], sums[r][v]);
      }
    }
    a += a_k;
    b += b_k;
  }
  for (int i = 0; i < t.addend_count; ++i) {
    const float* const addend = t.addends[i].data;
    const std::int64_t stride = t.addends[i].stride;
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Vector::add(Vector::load(addend + r * stride + v * kLanes), sums[r][v]);
      }
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vector::store(t.out + r * t.out_stride + v * kLanes, sums[r][v]);
    }
  }
}

template <typename Vector, int kRows, int kVectors>
struct TileTable {
  template <std::size_t... kIndex>
  static constexpr auto make(std::index_sequence<kIndex...>) {
    return std::array<TileFunction, sizeof...(kIndex)>{
        tile_kernel < Vector, static_cast<int>(kIndex) / kVectors % kRows + 1,
        static_cast<int>(kIndex) % kVectors + 1,
        static_cast<int>(kIndex) >= kRows * kVectors ? kRows : 0 > ...};
  }
  static constexpr auto kTiles = make(std::make_index_sequence<2 * kRows * kVectors>());
  static_assert(kRows * kVectors * Vector::kLanes <= kMaxTileFloats);
};

}  // namespace nqd::engine::fixed
