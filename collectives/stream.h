// Stores that pass the caches by, for outputs that do not fit in them: a line is written without
// being read first. Follow with stream_fence() before another thread is told.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nqd::collectives {

inline constexpr std::size_t kCacheLine = 64;

#if defined(__SSE2__)

// `to` lies on a cache line.
inline void stream_line(std::byte* to, const std::byte* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__AVX__)
  for (std::size_t at = 0; at < kCacheLine; at += sizeof(__m256i)) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
#else
  for (std::size_t at = 0; at < kCacheLine; at += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
#endif
}
inline void stream_fence() { _mm_sfence(); }

#else

inline void stream_line(std::byte* to, const std::byte* from) { std::memcpy(to, from, kCacheLine); }
inline void stream_fence() {}

#endif

// Copies; the ends that fill no line go through the caches.
inline void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(to) % kCacheLine;
  std::size_t done = std::min(bytes, misplaced == 0 ? 0 : kCacheLine - misplaced);
  std::memcpy(to, from, done);
  for (; done + kCacheLine <= bytes; done += kCacheLine) stream_line(to + done, from + done);
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace nqd::collectives
