// The attention kernels on the host, those of tensor cores and the reference, against the CPU's
// blocked attention.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/cuda/cudnn/attention_tensors.h"
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

// Attention and its gradients in double, of elements that lie where a library is told.
struct Described {
  AttentionTensors tensors;
  const std::vector<float>& qkv;
  std::int64_t k, v;  // where keys and values begin
  const std::vector<float>& d_out;
  std::vector<double> out, lse, d_qkv;

  Described(const cpu::AttentionLayout& at, const std::vector<float>& in, std::int64_t key,
            std::int64_t value, const std::vector<float>& gradient)
      : tensors(attention_tensors(at)),
        qkv(in),
        k(key),
        v(value),
        d_out(gradient),
        out(gradient.size()),
        lse(index(at.batch * at.heads * at.sequence)),
        d_qkv(in.size()) {
    const auto& [batch, heads, sequence, width] = tensors.q.extents;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < sequence; ++i)
          add_query(b, h, i, at.causal ? i + 1 : sequence);
      }
    }
  }

  static std::size_t place(const AttentionTensor& t, std::int64_t b, std::int64_t h, std::int64_t i,
                           std::int64_t c) {
    REQUIRE(h < t.extents[1]);
    return index(b * t.strides[0] + h * t.strides[1] + i * t.strides[2] + c * t.strides[3]);
  }

  void add_query(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t keys) {
    const std::int64_t width = tensors.q.extents[3];
    const std::int64_t kv = h / (tensors.q.extents[1] / tensors.kv.extents[1]);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const auto q_at = [&](std::int64_t c) { return place(tensors.q, b, h, i, c); };
    const auto k_at = [&](std::int64_t j, std::int64_t c) {
      return place(tensors.kv, b, kv, j, c) + index(k);
    };
    const auto v_at = [&](std::int64_t j, std::int64_t c) { return k_at(j, c) + index(v - k); };
    const auto out_at = [&](std::int64_t c) { return place(tensors.out, b, h, i, c); };
    std::vector<double> weights(index(keys)), d_weights(index(keys));
    double sum = 0, inner = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < width; ++c) score += scale * qkv[q_at(c)] * qkv[k_at(j, c)];
      sum += weights[index(j)] = std::exp(score);
    }
    lse[place(tensors.lse, b, h, i, 0)] = std::log(sum);
    for (std::int64_t j = 0; j < keys; ++j) {
      const double weight = weights[index(j)] /= sum;
      for (std::int64_t c = 0; c < width; ++c) {
        out[out_at(c)] += weight * qkv[v_at(j, c)];
        d_weights[index(j)] += static_cast<double>(d_out[out_at(c)]) * qkv[v_at(j, c)];
        d_qkv[v_at(j, c)] += weight * d_out[out_at(c)];
      }
      inner += weight * d_weights[index(j)];
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      const double d_score = scale * weights[index(j)] * (d_weights[index(j)] - inner);
      for (std::int64_t c = 0; c < width; ++c) {
        d_qkv[q_at(c)] += d_score * qkv[k_at(j, c)];
        d_qkv[k_at(j, c)] += d_score * qkv[q_at(c)];
      }
    }
  }
};

TEST_CASE("a library of attention is told where the CPU's kernels read and write") {
  for (const bool causal : {true, false}) {
    const auto at = cpu::packed_attention(2, 21, 6, 2, 8, causal);
    const std::int64_t k = 6 * 8, v = 8 * 8;
    const auto qkv = random_stored<float>(index(42 * at.q_stride), 1);
    const auto d_out = random_stored<float>(index(42 * at.out_stride), 2);
    std::vector<float> out(d_out.size()), lse(index(2 * 6 * 21)), d(qkv.size());
    std::vector<float> scratch(index(cpu::attention_backward_scratch(at)));
    const float* const in = qkv.data();
    cpu::blocked_attention_forward(out.data(), lse.data(), in, in + k, in + v, at,
                                   {0, at.kv_items()}, nullptr, scratch.data());
    cpu::blocked_attention_backward(d.data(), d.data() + k, d.data() + v, d_out.data(), out.data(),
                                    lse.data(), in, in + k, in + v, at, {0, at.kv_items()}, nullptr,
                                    scratch.data());
    const Described expected(at, qkv, k, v, d_out);
    CHECK(largest_difference(as_doubles(out), expected.out) < 1e-5);
    CHECK(largest_difference(as_doubles(lse), expected.lse) < 1e-5);
    CHECK(largest_difference(as_doubles(d), expected.d_qkv) < 1e-5);
    CHECK(suits_fused_attention(DType::kBFloat16, at));
    CHECK_FALSE(suits_fused_attention(DType::kFloat32, at));
  }
  CHECK(suits_fused_attention(DType::kFloat16, cpu::packed_attention(1, 8, 12, 12, 64, true)));
  CHECK_FALSE(suits_fused_attention(DType::kFloat16, cpu::packed_attention(1, 8, 3, 1, 20, true)));
  CHECK_FALSE(suits_fused_attention(DType::kFloat16, cpu::packed_attention(1, 8, 1, 1, 264, true)));
  CHECK_FALSE(suits_fused_attention(DType::kFloat16, cpu::packed_attention(0, 8, 1, 1, 64, true)));
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
