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

inline void transpose(__m256 (&rows)[kLanes]) {
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

// Works on groups of 8 items, or on panels where those have 6.
template <typename Widen, std::int64_t kGroup>
class Packer {
 public:
  using Stored = typename Widen::Stored;

  explicit Packer(const Packing& packing)
      : p_(packing),
        in_(static_cast<const Stored*>(packing.in)),
        alpha_(_mm256_set1_ps(packing.alpha)) {}

  void run() const {
    for (std::int64_t first = 0; first < p_.count; first += kGroups * kGroup) {
      const std::int64_t end =
          first + kGroups * kGroup < p_.count ? first + kGroups * kGroup : p_.count;
      if (p_.k_is_contiguous) {
        for (std::int64_t step = 0; step < p_.k; step += kSteps) pack_across(first, end, step);
      } else {
        pack_along(first, end);
      }
    }
    const std::int64_t groups = (p_.count + kGroup - 1) / kGroup;
    for (std::int64_t i = groups * kGroup; i % p_.width != 0; i += kGroup) pack_zeros(i);
  }

 private:
  static constexpr std::int64_t kGroups = 6;  // at a time: whole cache lines are read and written
  static constexpr std::int64_t kSteps = 16;
  // The processor's own prefetching stops at the end of each page, which is a row or a few.
  static constexpr std::int64_t kStepsAhead = 12;

  float* out(std::int64_t item, std::int64_t step) const {
    const std::int64_t within = item % p_.width;
    return p_.out + (item - within) * p_.k + step * p_.width + within;
  }

  // `count` stored values, zeros after them.
  __m256 load(const Stored* p, std::int64_t count) const {
    if (count >= kLanes) return _mm256_mul_ps(alpha_, Widen::load(p));
    Stored values[kLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) values[i] = p[i];
    return _mm256_mul_ps(alpha_, Widen::load(values));
  }

  static void store(float* p, __m256 values) {
    if constexpr (kGroup == kLanes) {
      _mm256_storeu_ps(p, values);
    } else {
      static_assert(kGroup == 6);
      _mm_storeu_ps(p, _mm256_castps256_ps128(values));
      _mm_storel_pi(reinterpret_cast<__m64*>(p + 4), _mm256_extractf128_ps(values, 1));
    }
  }

  void pack_along(std::int64_t first, std::int64_t end) const {
    float* outs[kGroups];
    std::int64_t groups = 0;
    std::int64_t item = first;
    for (; item + kLanes <= p_.count && item < end; item += kGroup) outs[groups++] = out(item, 0);
    const Stored* in = in_ + first;
    for (std::int64_t offset = 0; offset < p_.k * p_.width; offset += p_.width, in += p_.stride) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const Stored* const ahead = in + kStepsAhead * p_.stride + g * kGroup;
        _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
        store(outs[g] + offset, load(in + g * kGroup, kLanes));
      }
    }
    // Where whole vectors would be read from beyond the items.
    for (; item < end; item += kGroup) {
      const std::int64_t count = end - item < kGroup ? end - item : kGroup;
      for (std::int64_t step = 0; step < p_.k; ++step) {
        store(out(item, step), load(in_ + step * p_.stride + item, count));
      }
    }
  }

  void pack_across(std::int64_t first, std::int64_t end, std::int64_t first_step) const {
    const std::int64_t end_step = first_step + kSteps < p_.k ? first_step + kSteps : p_.k;
    for (std::int64_t item = first; item < end; item += kGroup) {
      const std::int64_t count = end - item < kGroup ? end - item : kGroup;
      for (std::int64_t step = first_step; step < end_step; step += kLanes) {
        const std::int64_t steps = end_step - step < kLanes ? end_step - step : kLanes;
        __m256 rows[kLanes];
        for (std::int64_t r = 0; r < kLanes; ++r) {
          rows[r] =
              r < count ? load(in_ + (item + r) * p_.stride + step, steps) : _mm256_setzero_ps();
        }
        transpose(rows);
        float* const to = out(item, step);
        for (std::int64_t r = 0; r < steps; ++r) store(to + r * p_.width, rows[r]);
      }
    }
  }

  void pack_zeros(std::int64_t item) const {
    for (std::int64_t step = 0; step < p_.k; ++step) store(out(item, step), _mm256_setzero_ps());
  }

  const Packing& p_;
  const Stored* in_;
  __m256 alpha_;
};

template <typename Widen>
void pack_as(const Packing& packing) {
  if (packing.width % kLanes == 0) return Packer<Widen, kLanes>(packing).run();
  Packer<Widen, 6>(packing).run();
}

}  // namespace

void pack_avx2(const Packing& packing) {
  if (packing.type == DType::kBFloat16) return pack_as<WidenBFloat16>(packing);
  if (packing.type == DType::kFloat16) return pack_as<WidenFloat16>(packing);
  pack_as<WidenFloat32>(packing);
}

}  // namespace nqd::engine::fixed
