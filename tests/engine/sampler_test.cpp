#include "engine/data/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"

namespace nqd::engine {
namespace {

std::vector<std::uint64_t> permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> values(n);
  for (std::uint64_t i = 0; i < n; ++i) values[i] = permute(i, n, seed, epoch);
  return values;
}

bool is_permutation_of_range(std::vector<std::uint64_t> values) {
  std::sort(values.begin(), values.end());
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    if (values[i] != i) return false;
  }
  return true;
}

// What `ranks` ranks read at one step, concatenated in rank order.
std::vector<std::uint64_t> global_batch(const Sampler& sampler, std::uint64_t step,
                                        std::uint64_t batch, std::uint64_t ranks) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t first = step * batch + rank * (batch / ranks);
    for (std::uint64_t i = 0; i < batch / ranks; ++i) samples.push_back(sampler.at(first + i));
  }
  return samples;
}

TEST_CASE("the permutation is a bijection for every n up to 4096") {
  for (std::uint64_t n = 1; n <= 4096; ++n) {
    INFO("n = ", n);
    REQUIRE(is_permutation_of_range(permutation(n, 7, n % 5)));
  }
}

TEST_CASE("the permutation is a bijection on larger ranges") {
  for (const std::uint64_t n : {65'535ull, 65'536ull, 65'537ull, 99'991ull}) {
    INFO("n = ", n);
    REQUIRE(is_permutation_of_range(permutation(n, 3, 1)));
  }
}

TEST_CASE("far apart indices of huge ranges stay in range and distinct") {
  std::mt19937_64 random(11);
  for (const std::uint64_t n : {(1ull << 48) - 59, 1ull << 48, (1ull << 63) + 5, ~0ull}) {
    INFO("n = ", n);
    std::set<std::uint64_t> indices;
    std::set<std::uint64_t> values;
    while (indices.size() < 2000) indices.insert(random() % n);
    for (const std::uint64_t index : indices) {
      const std::uint64_t value = permute(index, n, 5, 2);
      REQUIRE(value < n);
      values.insert(value);
    }
    CHECK(values.size() == indices.size());
  }
}

// From sampler_golden.py, an implementation in another language: the order must not change between
// compilers, machines and releases, or a resumed run would see other data.
TEST_CASE("golden vectors") {
  using Values = std::vector<std::uint64_t>;
  CHECK(permutation(10, 0, 0) == Values{5, 1, 3, 0, 4, 2, 7, 6, 8, 9});
  CHECK(permutation(10, 0, 1) == Values{6, 4, 5, 1, 9, 8, 3, 7, 0, 2});
  CHECK(permutation(10, 1, 0) == Values{6, 3, 1, 4, 9, 2, 7, 5, 8, 0});
  const Values epoch_0 = {785, 367, 405, 417, 540, 509, 508, 514};
  const Values epoch_7 = {538, 832, 15, 698, 361, 472, 125, 731};
  const Values huge = {29125247628978, 203530960627586, 153937845501040, 11563949344167};
  const Values largest = {0xd86d9fba72900ef0, 0xffcd05f8e3724b1c, 0x6500fd9bbdc368e8,
                          0x3bab6aeae0229c9d};
  for (std::uint64_t i = 0; i < 8; ++i) {
    CHECK(permute(i, 1000, 1234, 0) == epoch_0[i]);
    CHECK(permute(i, 1000, 1234, 7) == epoch_7[i]);
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    CHECK(permute(i, (1ull << 48) - 59, 42, 3) == huge[i]);
    CHECK(permute(i, ~0ull, ~0ull, ~0ull) == largest[i]);
  }
}

TEST_CASE("seed and epoch are hashed, not added") {
  CHECK(permutation(1000, 1, 0) != permutation(1000, 0, 1));
  CHECK(permutation(1000, 0, 0) != permutation(1000, 0, 1));
  CHECK(permutation(1000, 2, 3) != permutation(1000, 3, 2));
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 30; ++epoch) orders.insert(permutation(20, seed, epoch));
  }
  CHECK(orders.size() == 900);
}

// Chi-square of where one index lands over many keys. The statistic has mean n - 1 and variance
// 2(n - 1); 6 standard deviations leave a false alarm less often than once in a million.
void check_uniform(std::uint64_t n, std::uint64_t index, bool by_epoch) {
  const std::uint64_t draws = 400 * n;
  std::vector<double> counts(n, 0);
  for (std::uint64_t key = 0; key < draws; ++key) {
    ++counts[by_epoch ? permute(index, n, 99, key) : permute(index, n, key, 0)];
  }
  double statistic = 0;
  for (const double count : counts) statistic += (count - 400) * (count - 400) / 400;
  const auto freedom = static_cast<double>(n - 1);
  INFO("n = ", n, ", index = ", index, ", statistic = ", statistic);
  CHECK(statistic < freedom + 6 * std::sqrt(2 * freedom));
}

TEST_CASE("every place is equally likely for the first, a middle and the last index") {
  for (const std::uint64_t n : {2u, 3u, 5u, 7u, 8u, 9u, 17u, 64u, 100u, 257u}) {
    for (const std::uint64_t index : {std::uint64_t{0}, n / 2, n - 1}) {
      check_uniform(n, index, false);
      check_uniform(n, index, true);
    }
  }
}

// 8 rounds fail this for n = 5 to 8 by dozens of standard deviations.
void check_pairs(std::uint64_t n, std::uint64_t other) {
  constexpr double kExpected = 300;
  std::vector<double> counts(n * n, 0);
  const std::uint64_t draws = static_cast<std::uint64_t>(kExpected) * n * (n - 1);
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    ++counts[permute(0, n, seed, 0) * n + permute(other, n, seed, 0)];
  }
  double statistic = 0;
  for (std::uint64_t i = 0; i < n * n; ++i) {
    const double excess = counts[i] - kExpected;
    if (i / n != i % n) statistic += excess * excess / kExpected;
  }
  const auto freedom = static_cast<double>(n * (n - 1) - 1);
  INFO("n = ", n, ", other = ", other, ", statistic = ", statistic);
  CHECK(statistic < freedom + 6 * std::sqrt(2 * freedom));
}

TEST_CASE("two indices are placed independently: all ordered pairs are equally likely") {
  for (const std::uint64_t n : {3u, 5u, 6u, 7u, 8u, 13u, 31u}) {
    for (std::uint64_t other = 1; other < std::min<std::uint64_t>(n, 4); ++other) {
      check_pairs(n, other);
    }
  }
}

TEST_CASE("each sample is seen exactly once an epoch, whatever the batch leaves over") {
  for (const std::uint64_t samples : {1u, 2u, 3u, 13u, 16u, 97u, 1000u}) {
    for (const std::uint64_t batch : {1u, 2u, 8u, 12u}) {
      INFO("samples = ", samples, ", batch = ", batch);
      const Sampler sampler(samples, 42);
      constexpr std::uint64_t kEpochs = 3;
      std::vector<std::uint64_t> stream;
      for (std::uint64_t step = 0; stream.size() < kEpochs * samples; ++step) {
        const auto part = global_batch(sampler, step, batch, batch % 2 == 0 ? 2 : 1);
        stream.insert(stream.end(), part.begin(), part.end());
      }
      for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
        const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(epoch * samples);
        const std::vector<std::uint64_t> one(begin, begin + static_cast<std::ptrdiff_t>(samples));
        CHECK(is_permutation_of_range(one));
      }
    }
  }
}

TEST_CASE("the global order is the same for every number of ranks that divides the batch") {
  for (const std::uint64_t samples : {5u, 24u, 101u}) {
    const Sampler sampler(samples, 9);
    for (std::uint64_t step = 0; step < 12; ++step) {
      const auto one = global_batch(sampler, step, 24, 1);
      for (const std::uint64_t ranks : {2u, 3u, 4u, 6u, 8u, 12u, 24u}) {
        INFO("samples = ", samples, ", step = ", step, ", ranks = ", ranks);
        CHECK(global_batch(sampler, step, 24, ranks) == one);
      }
    }
  }
}

TEST_CASE("ranks never share a position and always own equally many") {
  constexpr std::uint64_t kBatch = 12;
  for (const std::uint64_t ranks : {1u, 2u, 3u, 4u, 6u, 12u}) {
    std::set<std::uint64_t> positions;
    for (std::uint64_t step = 0; step < 3; ++step) {
      for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        const std::uint64_t first = step * kBatch + rank * (kBatch / ranks);
        for (std::uint64_t i = 0; i < kBatch / ranks; ++i) positions.insert(first + i);
      }
    }
    CHECK(positions.size() == 3 * kBatch);
    CHECK(*positions.rbegin() == 3 * kBatch - 1);
  }
}

TEST_CASE("a run resumed at any step with other ranks continues the same stream") {
  const Sampler whole(37, 5);
  for (const std::uint64_t stop :
       {0u, 1u, 4u, 5u, 9u}) {  // 37 samples in batches of 8: epoch at 4.6
    for (std::uint64_t step = stop; step < stop + 6; ++step) {
      const Sampler resumed(37, 5);
      CHECK(global_batch(resumed, step, 8, 4) == global_batch(whole, step, 8, 2));
    }
  }
}

TEST_CASE("a dataset without a whole sample is refused") {
  try {
    Sampler(0, 1);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD2007");
    CHECK(error.exit_code() == ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace nqd::engine
