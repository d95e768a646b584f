// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of key and counter, so that any rank computes any
// element of any tensor without drawing the others first.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace nqd::engine {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// 64-bit FNV-1a, which names the stream of a tensor.
constexpr std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3;
  }
  return hash;
}

// Elements 4·block … 4·block + 3 of the standard normal stream (seed, stream): one Philox block,
// each half of it turned into a pair by Box-Muller.
inline std::array<float, 4> normal_block(std::uint64_t seed, std::uint64_t stream,
                                         std::uint64_t block) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const PhiloxCounter bits =
      philox4x32_10({low(block), high(block), low(stream), high(stream)}, {low(seed), high(seed)});
  // (bits + 1/2) / 2^32 lies inside (0, 1): the logarithm is finite.
  const auto uniform = [](std::uint32_t x) { return (x + 0.5) * 0x1p-32; };
  std::array<float, 4> normals{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(bits[2 * pair])));
    const double angle = 2.0 * std::numbers::pi * uniform(bits[2 * pair + 1]);
    normals[2 * pair] = static_cast<float>(radius * std::cos(angle));
    normals[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return normals;
}

}  // namespace nqd::engine
