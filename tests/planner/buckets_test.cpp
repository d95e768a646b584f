#include "planner/layout/buckets.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace nqd::planner {
namespace {

std::vector<TensorSpec> tensors_of(const std::vector<std::int64_t>& sizes) {
  std::vector<TensorSpec> tensors;
  for (std::int64_t size : sizes) tensors.push_back({"t", {size}});
  return tensors;
}

void check_cover(const std::vector<Bucket>& buckets, std::int64_t total) {
  std::int64_t end = total;
  for (const Bucket& bucket : buckets) {
    CHECK(bucket.count > 0);
    CHECK(bucket.begin + bucket.count == end);
    end = bucket.begin;
  }
  CHECK(end == 0);
}

TEST_CASE("buckets are cut from the end at tensor boundaries") {
  const auto buckets = gradient_buckets(tensors_of({5, 3, 4, 2}), 7 * 4, 4);
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0].begin == 8);  // 4 + 2 fit into 7 elements, 3 more would not
  CHECK(buckets[0].count == 6);
  CHECK(buckets[1].begin == 5);
  CHECK(buckets[1].count == 3);
  CHECK(buckets[2].begin == 0);
  CHECK(buckets[2].count == 5);
}

TEST_CASE("a bucket may be exactly full") {
  const auto buckets = gradient_buckets(tensors_of({3, 4, 3}), 7 * 2, 2);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].count == 7);
  CHECK(buckets[1].count == 3);
}

TEST_CASE("a tensor larger than the limit is a bucket of its own") {
  const auto buckets = gradient_buckets(tensors_of({1, 100, 1}), 10 * 4, 4);
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0].count == 1);
  CHECK(buckets[1].begin == 1);
  CHECK(buckets[1].count == 100);
  CHECK(buckets[2].count == 1);
}

TEST_CASE("no tensors, no buckets; a huge limit, one bucket") {
  CHECK(gradient_buckets({}, 100, 4).empty());
  CHECK(gradient_buckets(tensors_of({5, 6}), 1'000'000, 4).size() == 1);
}

TEST_CASE("every limit covers every element once and no bucket of several tensors exceeds it") {
  ModelSpec model;
  model.layers = 3;
  model.hidden = 16;
  model.heads = 2;
  model.ffn_hidden = 64;
  model.vocab = 97;
  model.sequence = 24;
  const std::vector<TensorSpec> tensors = parameters(model);
  std::int64_t largest = 0;
  for (const TensorSpec& tensor : tensors) largest = std::max(largest, tensor.elements());
  for (std::int64_t bytes : {1, 4, 400, 4096, 10'000, 100'000}) {
    CAPTURE(bytes);
    const auto buckets = gradient_buckets(tensors, bytes, 4);
    check_cover(buckets, parameter_count(model));
    for (const Bucket& bucket : buckets) {
      CHECK((bucket.count * 4 <= bytes || bucket.count <= largest));
    }
  }
}

}  // namespace
}  // namespace nqd::planner
