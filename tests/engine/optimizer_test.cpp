#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/optimizer/adamw.h"
#include "engine/optimizer/schedule.h"

using namespace nqd::engine;

TEST_CASE("one AdamW step equals the formula worked by hand") {
  // m = 0.1, v = 0.05, both corrections undo the (1 − β): the update is lr·g/(|g| + ε) = lr.
  std::vector<float> w = {2.0F};
  std::vector<float> m = {0.0F};
  std::vector<float> v = {0.0F};
  const std::vector<float> g = {1.0F};
  AdamwOptions options;
  options.lr = 0.1F;
  options.weight_decay = 0.5F;
  adamw_step(w, g, m, v, 1, options);
  CHECK(m[0] == doctest::Approx(0.1).epsilon(1e-6));
  CHECK(v[0] == doctest::Approx(0.05).epsilon(1e-6));
  CHECK(w[0] == doctest::Approx(2.0 - 0.1 * 0.5 * 2.0 - 0.1).epsilon(1e-6));
}

TEST_CASE("weight decay is decoupled: it does not pass through the moments") {
  std::vector<float> w = {4.0F};
  std::vector<float> m = {0.0F};
  std::vector<float> v = {0.0F};
  AdamwOptions options;
  options.lr = 0.25F;
  options.weight_decay = 0.5F;
  adamw_step(w, std::vector<float>{0.0F}, m, v, 1, options);
  CHECK(w[0] == 4.0F * (1.0F - 0.125F));
  CHECK(m[0] == 0.0F);
  CHECK(v[0] == 0.0F);
}

TEST_CASE("the clip factor scales gradients as they are read") {
  std::vector<float> scaled = {1.0F};
  std::vector<float> plain = {1.0F};
  std::vector<float> m1 = {0.0F}, v1 = {0.0F}, m2 = {0.0F}, v2 = {0.0F};
  AdamwOptions options;
  options.gradient_scale = 0.5F;
  adamw_step(scaled, std::vector<float>{3.0F}, m1, v1, 1, options);
  options.gradient_scale = 1.0F;
  adamw_step(plain, std::vector<float>{1.5F}, m2, v2, 1, options);
  CHECK(scaled[0] == plain[0]);
  CHECK(m1[0] == m2[0]);
  CHECK(v1[0] == v2[0]);
}

TEST_CASE("global norm and clip factor") {
  CHECK(global_norm(std::vector<float>{}) == 0.0);
  CHECK(global_norm(std::vector<float>{3.0F, -4.0F}) == 5.0);
  CHECK(global_norm(std::vector<float>(100, 1.0F)) == 10.0);
  CHECK(clip_factor(5.0, 1.0) == doctest::Approx(0.2));
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(5.0, 0.0) == 1.0);
}
