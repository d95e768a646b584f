#include "engine/data/sampler.h"

#include <bit>

#include "base/error.h"

namespace nqd::engine {
namespace {

// With 8 rounds the joint places of two indices are far from uniform on domains of 8 values (the
// chi-square tests show it); with 16 no test sees a preference.
constexpr int kRounds = 16;
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

// The finaliser of splitmix64: a bijection in which every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t low_bits(int count) { return count >= 64 ? ~0ull : (1ull << count) - 1; }

// A permutation of [0, 2^bits) in which the halves take turns to be masked by a function of the
// other; the halves differ by one bit when `bits` is odd.
class Feistel {
 public:
  // Seed and epoch are hashed one after the other, so that neither their sum nor their exclusive-or
  // decides: seed 1 in epoch 0 is not seed 0 in epoch 1.
  Feistel(int bits, std::uint64_t seed, std::uint64_t epoch)
      : low_count_(bits - bits / 2),
        low_mask_(low_bits(low_count_)),
        high_mask_(low_bits(bits / 2)),
        key_(mix(mix(seed + kGolden) + kGolden * (epoch + 1))) {}

  std::uint64_t operator()(std::uint64_t value) const {
    std::uint64_t low = value & low_mask_;
    std::uint64_t high = value >> low_count_;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t key = mix(key_ + kGolden * static_cast<std::uint64_t>(round + 1));
      if (round % 2 == 0) {
        low ^= mix(high + key) & low_mask_;
      } else {
        high ^= mix(low + key) & high_mask_;
      }
    }
    return high << low_count_ | low;
  }

 private:
  int low_count_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
  std::uint64_t key_;
};

}  // namespace

std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed,
                      std::uint64_t epoch) {
  if (n == 1) return 0;
  const Feistel feistel(std::bit_width(n - 1), seed, epoch);
  // Following the cycle until it re-enters [0, n) is a bijection on [0, n); since n is more than
  // half of the domain it takes fewer than two steps on average.
  std::uint64_t value = feistel(index);
  while (value >= n) value = feistel(value);
  return value;
}

Sampler::Sampler(std::uint64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {
  if (samples == 0) {
    throw Error(ExitCode::kUsage, "NQD2007", "the dataset is shorter than one sequence",
                "prepare more text, or lower model.sequence");
  }
}

std::uint64_t Sampler::at(std::uint64_t position) const {
  return permute(position % samples_, samples_, seed_, position / samples_);
}

}  // namespace nqd::engine
