// Optimizer updates: formulas, 16-bit copies, and independence of the cut into runs.
#include <doctest/doctest.h>

#include "engine/optimizer/adamw.h"
#include "engine/optimizer/sgd.h"
#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine {

using namespace nqd::tests;

TEST_CASE_TEMPLATE("the 16-bit copy is the master rounded; the master as without it", S, BFloat16,
                   Float16) {
  const auto g = random_stored<float>(101, 2);
  std::vector<float> plain = random_stored<float>(101, 1), master = plain;
  std::vector<float> m1(101), v1(101), m2(101), v2(101);
  std::vector<S> stored(101);
  AdamwOptions adamw;
  adamw.weight_decay = 0.1F;
  for (std::int64_t step = 1; step <= 3; ++step) {
    adamw_step(plain, g, m1, v1, step, adamw);
    adamw_step<S>(master, stored, g, m2, v2, step, adamw);
  }
  CHECK(same_bits(plain, master));
  CHECK(same_bits(m1, m2));
  CHECK(same_bits(v1, v2));
  for (std::size_t i = 0; i < 101; ++i) {
    REQUIRE(stored[i].bits == cpu::narrow<S>(master[i]).bits);
  }

  sgd_step(plain, g, m1, {});
  sgd_step<S>(master, stored, g, m2, {});
  CHECK(same_bits(plain, master));
  CHECK(stored[100].bits == cpu::narrow<S>(master[100]).bits);
}

TEST_CASE("updates do not depend on how parameters are cut into runs") {
  const auto g = random_stored<float>(200, 2);
  const auto start = random_stored<float>(200, 1);
  std::vector<float> w1 = start, w2 = start, m1(200), m2(200), v1(200), v2(200);
  std::vector<float> e1 = start, e2 = start;
  const SgdOptions sgd{.weight_decay = 0.5F, .gradient_scale = 0.3F};
  adamw_step(w1, g, m1, v1, 2, {});
  sgd_step(w1, g, v1, sgd);
  ema_step(e1, w1, 0.99F);
  for (std::size_t first = 0; first < 200; first += 7) {
    const std::size_t count = std::min<std::size_t>(7, 200 - first);
    const auto part = [&](auto& values) { return std::span(values).subspan(first, count); };
    adamw_step(part(w2), part(g), part(m2), part(v2), 2, {});
    sgd_step(part(w2), part(g), part(v2), sgd);
    ema_step(part(e2), part(w2), 0.99F);
  }
  CHECK(same_bits(w1, w2));
  CHECK(same_bits(v1, v2));
  CHECK(same_bits(e1, e2));
}

TEST_CASE("descent and averages worked by hand") {
  std::vector<float> w = {2.0F};
  std::vector<float> u = {4.0F};
  const std::vector<float> g = {8.0F};
  const SgdOptions options{
      .lr = 0.5F, .momentum = 0.5F, .weight_decay = 0.25F, .gradient_scale = 0.25F};
  sgd_step(w, g, {}, options);
  CHECK(w[0] == 2.0F * 0.875F - 0.5F * 2.0F);
  w = {2.0F};
  sgd_step(w, g, u, options);
  CHECK(u[0] == 0.5F * 4.0F + 2.0F);
  CHECK(w[0] == 2.0F * 0.875F - 0.5F * 4.0F);
  std::vector<float> average = {1.0F};
  ema_step(average, std::vector<float>{3.0F}, 0.75F);
  CHECK(average[0] == 1.5F);
}

}  // namespace nqd::engine
