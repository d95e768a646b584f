// The bits of the kernels themselves: equal in every build, whatever compiler, vector width and
// CPU. Golden values change only where a kernel's arithmetic is changed on purpose.
#include <doctest/doctest.h>

#include <string>

#include "engine/cpu/activations.h"
#include "engine/cpu/blocked_attention.h"
#include "engine/cpu/cross_entropy.h"
#include "engine/cpu/epilogue.h"
#include "engine/cpu/norms.h"
#include "engine/philox.h"
#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

constexpr std::int64_t kRows = 24, kWidth = 301;
constexpr NormShape kShape{.rows = kRows, .width = kWidth};

template <typename S>
std::vector<S> values(std::int64_t count, unsigned seed) {
  std::vector<S> found;
  std::uint32_t state = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    found.push_back(narrow<S>((static_cast<float>(state >> 8) - 8388608.0F) / 4194304.0F));
  }
  return found;
}

template <typename T>
std::uint64_t digest(const std::vector<T>& x) {
  return stream_of({reinterpret_cast<const char*>(x.data()), x.size() * sizeof(T)});
}

template <typename S>
std::vector<std::uint64_t> norms() {
  const auto x = values<S>(kRows * kWidth, 1), weight = values<S>(kWidth, 2);
  const auto dy = values<S>(kRows * kWidth, 3);
  std::vector<S> y(x.size()), dx(x.size());
  std::vector<float> mean(index(kRows)), rstd = mean, dw(index(kWidth)), db = dw;
  layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), weight.data(), weight.data(),
                     kShape);
  layer_norm_backward_input(dx.data(), x.data(), dy.data(), x.data(), weight.data(), mean.data(),
                            rstd.data(), kShape);
  layer_norm_backward_weight(dw.data(), db.data(), dy.data(), x.data(), mean.data(), rstd.data(),
                             kShape, 8);
  std::vector<std::uint64_t> found = {digest(y), digest(dx), digest(dw), digest(db)};
  rms_norm_forward(y.data(), rstd.data(), x.data(), weight.data(), kShape);
  rms_norm_backward_input(dx.data(), x.data(), dy.data(), x.data(), weight.data(), rstd.data(),
                          kShape);
  found.push_back(digest(y));
  found.push_back(digest(dx));
  return found;
}

template <typename S>
std::vector<std::uint64_t> elements() {
  const auto x = values<S>(kRows * kWidth, 4), dy = values<S>(kRows * kWidth, 5);
  const auto product = values<float>(kRows * kWidth, 6);
  std::vector<S> y(x.size()), dx(x.size()), gated(index(kRows * 150)), d_gated(index(kRows * 300));
  gelu(y.data(), x.data(), kRows * kWidth);
  gelu_backward(dx.data(), dy.data(), x.data(), kRows * kWidth);
  swiglu(gated.data(), x.data(), kRows, 150);
  swiglu_backward(d_gated.data(), dy.data(), x.data(), kRows, 150);
  std::vector<std::uint64_t> found = {digest(y), digest(dx), digest(gated), digest(d_gated)};
  const Dropout dropout{.rate = 0.3, .seed = 5, .step = 2, .layer = 1};
  bias_dropout_residual(y.data(), product.data(), dy.data(), x.data(), kRows, kWidth, &dropout, 3);
  found.push_back(digest(y));
  return found;
}

template <typename S>
std::vector<std::uint64_t> loss() {
  auto logits = values<S>(kRows * kWidth, 7);
  std::vector<std::int32_t> targets;
  for (std::int32_t row = 0; row < kRows; ++row) targets.push_back(row * 11);
  const LogitsShape shape{
      .rows = kRows, .stride = kWidth, .valid = kWidth, .first = 0, .slice_width = 38, .slices = 8};
  std::vector<float> maximum(index(kRows)), sum = maximum, at_target = maximum;
  cross_entropy_maximum(maximum.data(), logits.data(), shape);
  cross_entropy_sums(sum.data(), at_target.data(), logits.data(), targets.data(), maximum.data(),
                     shape);
  cross_entropy_backward(logits.data(), targets.data(), maximum.data(), sum.data(), 0.5F, shape);
  return {digest(sum), digest(logits)};
}

// The logarithm is the C library's: lse is given to backward, not compared.
template <typename S>
std::vector<std::uint64_t> attention() {
  const auto layout = packed_attention(2, 231, 4, 2, 40, true);
  const auto qkv = values<S>(2 * 231 * layout.q_stride, 8);
  const auto d_out = values<S>(2 * 231 * layout.out_stride, 9);
  const std::vector<float> lse(2 * 4 * 231, 6.0F);
  std::vector<float> kept(lse.size()), scratch(index(attention_backward_scratch(layout)));
  std::vector<S> out(d_out.size()), d_qkv(qkv.size());
  S* const d = d_qkv.data();
  blocked_attention_forward(out.data(), kept.data(), qkv.data(), &qkv[160], &qkv[240], layout,
                            {0, 4}, nullptr, scratch.data());
  blocked_attention_backward(d, d + 160, d + 240, d_out.data(), out.data(), lse.data(), qkv.data(),
                             &qkv[160], &qkv[240], layout, {0, 4}, nullptr, scratch.data());
  return {digest(out), digest(d_qkv)};
}

template <typename S>
void check_all(std::uint64_t expected) {
  std::vector<std::uint64_t> found = norms<S>();
  for (const auto& part : {elements<S>(), loss<S>(), attention<S>()}) {
    for (const std::uint64_t value : part) found.push_back(value);
  }
  std::string digests;
  for (const std::uint64_t value : found) digests += " " + std::to_string(value);
  INFO("digests:", digests);
  CHECK(digest(found) == expected);
}

}  // namespace

TEST_CASE("the kernels' bits are those of every build") {
  check_all<float>(1975295458331667519U);
  check_all<BFloat16>(16414001894252713633U);
  check_all<Float16>(12582363523745537625U);
}

}  // namespace nqd::engine::cpu
