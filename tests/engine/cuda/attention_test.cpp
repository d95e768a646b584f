// The attention kernels on the host, those of tensor cores and the reference, against the CPU's
// blocked attention.
#include <doctest/doctest.h>

#include <limits>

#include "engine/cuda/kernels/bodies/attention.h"
#include "tests/engine/cuda/host_block.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

struct Case {
  std::int64_t batch, sequence, heads, kv_heads, width;
  bool causal, drops;
};

template <typename S>
void compare(const Case& c) {
  CAPTURE(c.sequence);
  CAPTURE(c.width);
  const auto at =
      cpu::packed_attention(c.batch, c.sequence, c.heads, c.kv_heads, c.width, c.causal);
  const cpu::AttentionDropout dropout{
      {0.2, 11, 3, 1, cpu::DropoutSite::kAttention}, 2, 1, c.heads + 2};
  const cpu::AttentionDropout* drop = c.drops ? &dropout : nullptr;
  const std::int64_t rows = c.batch * c.sequence;
  const auto qkv = random_stored<S>(index(rows * at.q_stride), 1, 2.0);
  const auto d_out = random_stored<S>(index(rows * at.out_stride), 2);
  const std::int64_t k = c.heads * c.width, v = k + c.kv_heads * c.width;
  const S* in = qkv.data();

  std::vector<S> out(d_out.size()), d_qkv(qkv.size());
  std::vector<float> lse(index(rows * c.heads));
  std::vector<float> scratch(
      index(std::max(cpu::attention_forward_scratch(at), cpu::attention_backward_scratch(at))));
  cpu::blocked_attention_forward(out.data(), lse.data(), in, in + k, in + v, at, {0, at.kv_items()},
                                 drop, scratch.data());
  S* d = d_qkv.data();
  cpu::blocked_attention_backward(d, d + k, d + v, d_out.data(), out.data(), lse.data(), in, in + k,
                                  in + v, at, {0, at.kv_items()}, drop, scratch.data());

  std::vector<float> own_lse(lse.size());
  const auto own = emulate([&](const auto& run) {
    std::vector<S> y(out.size());
    bodies::attention_forward(run, y.data(), own_lse.data(), in, in + k, in + v, at, drop);
    return y;
  });
  check_close<S>(own, out, 6);
  check_close<float>(own_lse, lse, 8);
  const auto gradient = emulate([&](const auto& run) {
    std::vector<S> g(qkv.size());
    std::vector<float> inner(lse.size(), std::numeric_limits<float>::quiet_NaN());
    bodies::attention_backward(run, g.data(), g.data() + k, g.data() + v, d_out.data(), out.data(),
                               lse.data(), in, in + k, in + v, at, drop, inner.data());
    return g;
  });
  check_close<S>(gradient, d_qkv, 8);
}

TEST_CASE("attention over several tiles, ragged, grouped, with and without a mask") {
  compare<float>({2, 70, 4, 2, 16, true, false});
  compare<float>({1, 33, 2, 2, 20, false, false});
  compare<BFloat16>({1, 64, 2, 1, 64, true, false});
  compare<BFloat16>({2, 100, 4, 2, 40, true, false});
  compare<BFloat16>({1, 90, 2, 2, 52, false, false});
  compare<BFloat16>({1, 75, 2, 1, 128, true, false});
}

TEST_CASE("attention drops the CPU's probabilities") {
  compare<float>({1, 40, 2, 1, 8, true, true});
  compare<BFloat16>({2, 40, 2, 1, 16, true, true});
}

TEST_CASE("attention of wide heads") {
  compare<float>({1, 35, 1, 1, 96, true, false});
  compare<BFloat16>({1, 20, 1, 1, 200, true, false});
}

TEST_CASE("heads too wide are refused") {
  const auto at = cpu::packed_attention(1, 4, 1, 1, 264, true);
  std::vector<float> x(index(4 * at.q_stride)), lse(4);
  const Emulation run(ThreadOrder::kAscending);
  CHECK_THROWS_WITH_AS(bodies::attention_forward(run, x.data(), lse.data(), x.data(), x.data(),
                                                 x.data(), at, nullptr),
                       doctest::Contains("264"), Error);
}

}  // namespace
}  // namespace nqd::engine::cuda
