// Kernels, and the Llama layer that they make, against PyTorch's autograd
// (tests/engine/fixtures/make_kernel_fixtures.py).
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "engine/cpu/activations.h"
#include "engine/cpu/blocked_attention.h"
#include "engine/cpu/norms.h"
#include "engine/cpu/rotary.h"
#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

constexpr std::int64_t kBatch = 2, kSequence = 7, kHeads = 4, kKvHeads = 2, kWidth = 4, kFfn = 12;
constexpr std::int64_t kHidden = kHeads * kWidth, kRows = kBatch * kSequence;
constexpr std::int64_t kQkv = kHidden + 2 * kKvHeads * kWidth;
constexpr NormShape kNorm{.rows = kRows, .width = kHidden, .epsilon = 1e-2};
constexpr RotaryShape kTurned{.rows = kRows,
                              .sequence = kSequence,
                              .heads = kHeads + kKvHeads,
                              .head_width = kWidth,
                              .stride = kQkv};

std::map<std::string, Values> read_fixture() {
  std::ifstream in(NQD_SOURCE_DIR "/tests/engine/fixtures/kernels.bin", std::ios::binary);
  std::string magic(9, ' ');
  in.read(magic.data(), 9);
  REQUIRE(magic == "NQDKERN1\n");
  std::map<std::string, Values> arrays;
  std::int32_t length = 0;
  while (in.read(reinterpret_cast<char*>(&length), sizeof length)) {
    std::string name(static_cast<std::size_t>(length), ' ');
    in.read(name.data(), length);
    std::int64_t count = 0;
    in.read(reinterpret_cast<char*>(&count), sizeof count);
    Values& values = arrays[name];
    values.resize(index(count));
    in.read(reinterpret_cast<char*>(values.data()), count * 8);
  }
  return arrays;
}

// The arrays of one case in type T, and comparisons with them.
template <typename T>
class Case {
 public:
  explicit Case(std::string name) : name_(std::move(name)), arrays_(read_fixture()) {}

  std::vector<T> get(const std::string& name) const {
    const Values& values = arrays_.at(name_ + "." + name);
    return {values.begin(), values.end()};
  }
  // ‖a − b‖ ≤ 32 ε ‖b‖: an element sums up to 64 terms.
  void check(const std::string& name, const std::vector<T>& found) const {
    const Values& expected = arrays_.at(name_ + "." + name);
    REQUIRE(found.size() == expected.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
      norm += expected[i] * expected[i];
    }
    INFO(name_, ".", name, ": relative difference ", std::sqrt(difference / norm));
    CHECK(norm > 1e-4);
    CHECK(std::sqrt(difference / norm) <=
          32 * static_cast<double>(std::numeric_limits<T>::epsilon()));
  }

 private:
  std::string name_;
  std::map<std::string, Values> arrays_;
};

// a [m, k] times b, stored [n, k] (transposed) or [k, n].
template <typename T>
std::vector<T> multiply(const std::vector<T>& a, const std::vector<T>& b, std::int64_t m,
                        std::int64_t n, std::int64_t k, bool transposed) {
  std::vector<T> c(index(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) {
        c[index(i * n + j)] += a[index(i * k + l)] * b[index(transposed ? j * k + l : l * n + j)];
      }
    }
  }
  return c;
}

// aᵀ · b for a [rows, m] and b [rows, n]: the gradient of a weight [m, n].
template <typename T>
std::vector<T> multiply_rows(const std::vector<T>& a, const std::vector<T>& b, std::int64_t m,
                             std::int64_t n) {
  std::vector<T> c(index(m * n));
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        c[index(i * n + j)] += a[index(row * m + i)] * b[index(row * n + j)];
      }
    }
  }
  return c;
}

template <typename T>
struct Attention {
  AttentionLayout layout =
      packed_attention(kBatch, kSequence, kHeads, kKvHeads, kWidth, /*causal=*/true);
  std::vector<T> lse = std::vector<T>(index(kRows * kHeads));
  std::vector<T> scratch = std::vector<T>(index(attention_backward_scratch(layout)));

  std::vector<T> forward(const std::vector<T>& qkv) {
    std::vector<T> out(index(kRows * kHidden));
    const T* k = qkv.data() + kHidden;
    blocked_attention_forward(out.data(), lse.data(), qkv.data(), k, k + kKvHeads * kWidth, layout,
                              {0, layout.kv_items()}, nullptr, scratch.data());
    return out;
  }
  std::vector<T> backward(const std::vector<T>& d_out, const std::vector<T>& out,
                          const std::vector<T>& qkv) {
    std::vector<T> d(qkv.size());
    const std::int64_t v = kHidden + kKvHeads * kWidth;
    blocked_attention_backward(d.data(), d.data() + kHidden, d.data() + v, d_out.data(), out.data(),
                               lse.data(), qkv.data(), qkv.data() + kHidden, qkv.data() + v, layout,
                               {0, layout.kv_items()}, nullptr, scratch.data());
    return d;
  }
};

template <typename T>
struct RotaryTable {
  std::vector<T> cosines = std::vector<T>(index(kSequence * kWidth / 2));
  std::vector<T> sines = cosines;
  RotaryTable() {
    const double frequencies[] = {1, 1 / std::sqrt(500.0)};  // of a head of 4 columns, base 500
    rotary_table(cosines.data(), sines.data(), kSequence, std::span(frequencies));
  }
};

template <typename T>
struct RmsNorm {
  std::vector<T> rstd = std::vector<T>(index(kRows));
  std::vector<T> out = std::vector<T>(index(kRows * kHidden));
  std::vector<T> d_weight = std::vector<T>(index(kHidden));

  const std::vector<T>& forward(const std::vector<T>& x, const std::vector<T>& weight) {
    rms_norm_forward(out.data(), rstd.data(), x.data(), weight.data(), kNorm);
    return out;
  }
  // Adds into d_x.
  void backward(std::vector<T>& d_x, const std::vector<T>& d_out, const std::vector<T>& x,
                const std::vector<T>& weight) {
    rms_norm_backward_weight(d_weight.data(), d_out.data(), x.data(), rstd.data(), kNorm, 1);
    rms_norm_backward_input(d_x.data(), d_x.data(), d_out.data(), x.data(), weight.data(),
                            rstd.data(), kNorm);
  }
};

template <typename T>
std::vector<T> sum_of(std::vector<T> a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace

TEST_CASE_TEMPLATE("kernels agree with PyTorch, forward and backward", T, double, float) {
  {
    const Case<T> expected("rms_norm");
    RmsNorm<T> norm;
    expected.check("out", norm.forward(expected.get("x"), expected.get("weight")));
    std::vector<T> d_x(index(kRows * kHidden));
    norm.backward(d_x, expected.get("d.out"), expected.get("x"), expected.get("weight"));
    expected.check("d.x", d_x);
    expected.check("d.weight", norm.d_weight);
  }
  {
    const Case<T> expected("rotary");
    const RotaryTable<T> table;
    const RotaryShape shape{kRows, kSequence, kHeads, kWidth, kHidden};
    auto x = expected.get("x"), d = expected.get("d.out");
    rotary_forward(x.data(), table.cosines.data(), table.sines.data(), shape);
    rotary_backward(d.data(), table.cosines.data(), table.sines.data(), shape);
    expected.check("out", x);
    expected.check("d.x", d);
  }
  {
    const Case<T> expected("swiglu");
    const auto x = expected.get("x");
    std::vector<T> y(index(kRows * kFfn)), d_x(x.size());
    swiglu(y.data(), x.data(), kRows, kFfn);
    swiglu_backward(d_x.data(), expected.get("d.out").data(), x.data(), kRows, kFfn);
    expected.check("out", y);
    expected.check("d.x", d_x);
  }
  {
    const Case<T> expected("attention");
    Attention<T> attention;
    const auto qkv = expected.get("qkv");
    const auto out = attention.forward(qkv);
    expected.check("out", out);
    expected.check("d.qkv", attention.backward(expected.get("d.out"), out, qkv));
  }
}

TEST_CASE_TEMPLATE("a Llama layer of these kernels has PyTorch's output and gradients", T, double,
                   float) {
  const Case<T> expected("layer");
  const auto x = expected.get("x");
  const auto w_qkv = expected.get("qkv"), w_proj = expected.get("proj");
  const auto w_fc = expected.get("fc"), w_down = expected.get("down");
  const RotaryTable<T> table;
  RmsNorm<T> norm1, norm2;
  Attention<T> attention;

  auto qkv = multiply(norm1.forward(x, expected.get("norm1")), w_qkv, kRows, kQkv, kHidden, true);
  rotary_forward(qkv.data(), table.cosines.data(), table.sines.data(), kTurned);
  const auto heads = attention.forward(qkv);
  const auto middle = sum_of(multiply(heads, w_proj, kRows, kHidden, kHidden, true), x);
  const auto fc =
      multiply(norm2.forward(middle, expected.get("norm2")), w_fc, kRows, 2 * kFfn, kHidden, true);
  std::vector<T> gated(index(kRows * kFfn));
  swiglu(gated.data(), fc.data(), kRows, kFfn);
  expected.check("out", sum_of(multiply(gated, w_down, kRows, kHidden, kFfn, true), middle));

  auto d = expected.get("d.out");
  expected.check("d.down", multiply_rows(d, gated, kHidden, kFfn));
  std::vector<T> d_fc(fc.size());
  swiglu_backward(d_fc.data(), multiply(d, w_down, kRows, kFfn, kHidden, false).data(), fc.data(),
                  kRows, kFfn);
  expected.check("d.fc", multiply_rows(d_fc, norm2.out, 2 * kFfn, kHidden));
  norm2.backward(d, multiply(d_fc, w_fc, kRows, kHidden, 2 * kFfn, false), middle,
                 expected.get("norm2"));
  expected.check("d.norm2", norm2.d_weight);
  expected.check("d.proj", multiply_rows(d, heads, kHidden, kHidden));
  auto d_qkv = attention.backward(multiply(d, w_proj, kRows, kHidden, kHidden, false), heads, qkv);
  rotary_backward(d_qkv.data(), table.cosines.data(), table.sines.data(), kTurned);
  expected.check("d.qkv", multiply_rows(d_qkv, norm1.out, kQkv, kHidden));
  norm1.backward(d, multiply(d_qkv, w_qkv, kRows, kHidden, kQkv, false), x, expected.get("norm1"));
  expected.check("d.norm1", norm1.d_weight);
  expected.check("d.x", d);
}

}  // namespace nqd::engine::cpu
