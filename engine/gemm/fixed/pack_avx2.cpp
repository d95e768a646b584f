// Packing with AVX2 and F16C, for the kernels of avx2.cpp and avx512.cpp. Compiled for them: see
// kernels.h.
#include <immintrin.h>

#include "engine/gemm/fixed/x86.h"

namespace nqd::engine::fixed {
namespace {

constexpr std::int64_t kLanes = 8;
using Half = std::uint16_t;  // of either 16-bit type

struct WidenFloat32 {
  using Stored = float;
  static __m256 load(const Stored* p) { return _mm256_loadu_ps(p); }
};

struct WidenBFloat16 {
  using Stored = Half;
  static __m256 load(const Stored* p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
};

struct WidenFloat16 {
  using Stored = Half;
  static __m256 load(const Stored* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
};

void transpose(__m256 (&rows)[kLanes]) {
  __m256 pairs[kLanes];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  __m256 quads[kLanes];
  for (int i = 0; i < 8; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

template <typename Widen>
class Packer {
 public:
  using Stored = typename Widen::Stored;

  explicit Packer(const PanelPack& panel)
      : panel_(panel),
        in_(static_cast<const Stored*>(panel.in)),
        alpha_(_mm256_set1_ps(panel.alpha)) {}

  void run() const {
    for (std::int64_t i = 0; i < panel_.width; i += kLanes) {
      const std::int64_t lanes = panel_.width - i < kLanes ? panel_.width - i : kLanes;
      const std::int64_t left = panel_.count - i;
      const std::int64_t count = left < 0 ? 0 : left < lanes ? left : lanes;
      if (panel_.k_is_contiguous) {
        pack_across(i, lanes, count);
      } else {
        pack_along(i, lanes, count);
      }
    }
  }

 private:
  // Up to 8 stored values, zeros after them.
  __m256 load(const Stored* p, std::int64_t count) const {
    if (count == kLanes) return _mm256_mul_ps(alpha_, Widen::load(p));
    Stored values[kLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) values[i] = p[i];
    return _mm256_mul_ps(alpha_, Widen::load(values));
  }

  static void store(float* out, __m256 values, std::int64_t lanes) {
    if (lanes == kLanes) return _mm256_storeu_ps(out, values);
    float all[kLanes];
    _mm256_storeu_ps(all, values);
    for (std::int64_t i = 0; i < lanes; ++i) out[i] = all[i];
  }

  void pack_along(std::int64_t i, std::int64_t lanes, std::int64_t count) const {
    const Stored* in = in_ + i;
    float* out = panel_.out + i;
    for (std::int64_t k = 0; k < panel_.k; ++k) {
      store(out, load(in, count), lanes);
      in += panel_.stride;
      out += panel_.width;
    }
  }

  void pack_across(std::int64_t i, std::int64_t lanes, std::int64_t count) const {
    const Stored* const in = in_ + i * panel_.stride;
    float* const out = panel_.out + i;
    for (std::int64_t k = 0; k < panel_.k; k += kLanes) {
      const std::int64_t steps = panel_.k - k < kLanes ? panel_.k - k : kLanes;
      __m256 rows[kLanes];
      for (std::int64_t r = 0; r < kLanes; ++r) {
        rows[r] = r < count ? load(in + r * panel_.stride + k, steps) : _mm256_setzero_ps();
      }
      transpose(rows);
      for (std::int64_t r = 0; r < steps; ++r) store(out + (k + r) * panel_.width, rows[r], lanes);
    }
  }

  const PanelPack& panel_;
  const Stored* in_;
  __m256 alpha_;
};

}  // namespace

void pack_avx2(const PanelPack& panel) {
  if (panel.type == DType::kBFloat16) return Packer<WidenBFloat16>(panel).run();
  if (panel.type == DType::kFloat16) return Packer<WidenFloat16>(panel).run();
  Packer<WidenFloat32>(panel).run();
}

}  // namespace nqd::engine::fixed
