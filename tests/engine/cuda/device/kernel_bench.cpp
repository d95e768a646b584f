// nqd_kernel_bench [--device cuda|cpu] [--json]: how fast a device's operations are. Of passes over
// memory the bytes a second that they have to move (what they read and write once each, see
// `least`) beside a copy's; of products and attention the operations a second. Sizes are those of
// large models, beyond a GPU's cache; on the CPU, which tries the program out, small ones.
//
//   {"device", "attention", "copy_bytes_per_s", "passes": [{"name", "shape", "bytes", "seconds",
//    "bytes_per_s", "share_of_copy"}], "products": [{"name", "shape", "operations", "seconds",
//    "operations_per_s"}]}
//
// Seconds are of one call: the median of batches that are waited for as a whole.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/cpu/storage.h"
#include "engine/cuda/device.h"
#include "engine/cuda/make_cuda_device.h"
#include "engine/device/cpu_device.h"
#include "tests/engine/cuda/device/kernel_rows.h"

namespace nqd::tests {
namespace {

using engine::Device;
using engine::FixedProduct;
using engine::matrix;
using engine::ProductEpilogue;
using engine::result;
using engine::Transpose;
using Clock = std::chrono::steady_clock;
using S = BFloat16;

struct Sizes {
  std::int64_t rows, hidden, vocabulary, parameters, batch, sequence, heads;
  double batch_s;  // how long a batch of calls should take
};
constexpr Sizes kLarge{16384, 2048, 50304, std::int64_t{1} << 28, 8, 2048, 32, 20e-3};
constexpr Sizes kSmall{64, 128, 256, 4096, 1, 64, 2, 1e-4};

class Bench {
 public:
  Bench(Device& device, const Sizes& sizes)
      : device_(device), sizes_(sizes), products_(device.make_products({}, nullptr)) {}

  void run() {
    copy();
    norms();
    activations();
    rows_and_columns();
    cross_entropy();
    update();
    products();
    attention();
  }

  KernelRows measured;

 private:
  // `count` values in (low, 1), as long as the bench lives.
  template <typename T>
  T* filled(std::int64_t count, float low = -1) {
    memory_.push_back(device_.allocate(nullptr, MemoryTag::kWorkspace,
                                       static_cast<std::size_t>(count) * sizeof(T),
                                       engine::Reach::kOwn));
    T* const data = reinterpret_cast<T*>(memory_.back()->data());
    std::uniform_real_distribution<float> values(low, 1);
    std::vector<T> some(static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 20)));
    for (T& value : some) value = engine::cpu::narrow<T>(values(random_));
    auto done = static_cast<std::int64_t>(some.size());
    device_.upload(data, some.data(), some.size() * sizeof(T));
    while (done < count) {
      const std::int64_t more = std::min(done, count - done);
      device_.copy(data + done, data, static_cast<std::size_t>(more) * sizeof(T));
      done += more;
    }
    return data;
  }
  std::int32_t* indices(std::int64_t count, std::int64_t limit) {
    auto* const data = reinterpret_cast<std::int32_t*>(filled<float>(count));
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (std::int32_t& value : values) {
      value = static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(limit));
    }
    device_.upload(data, values.data(), values.size() * sizeof(std::int32_t));
    return data;
  }

  template <typename Call>
  double seconds_of(const Call& call) {
    const auto timed = [&](int calls) {
      device_.synchronize();
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      device_.synchronize();
      return std::chrono::duration<double>(Clock::now() - start).count() / calls;
    };
    timed(2);  // libraries choose their algorithms, scratch grows
    const int calls = static_cast<int>(std::clamp(sizes_.batch_s / timed(2), 1.0, 200.0));
    std::vector<double> batches;
    for (int i = 0; i < 5; ++i) batches.push_back(timed(calls));
    std::nth_element(batches.begin(), batches.begin() + 2, batches.end());
    return batches[2];
  }
  static std::string shape_text(std::initializer_list<std::int64_t> shape) {
    std::string text;
    for (const std::int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
    return text;
  }
  // `least`: bytes an element that a call cannot do without.
  template <typename Call>
  void pass(const char* name, std::initializer_list<std::int64_t> shape, double least,
            const Call& call) {
    double elements = 1;
    for (const std::int64_t n : shape) elements *= static_cast<double>(n);
    measured.passes.push_back({name, shape_text(shape), least * elements, seconds_of(call)});
    forget();
  }
  template <typename Call>
  void product(const std::string& name, const FixedProduct& p, const Call& call) {
    const double operations =
        2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    measured.products.push_back({name, shape_text({p.m, p.n, p.k}), operations, seconds_of(call)});
  }
  // Gives back what was allocated since the last call.
  void forget() {
    device_.synchronize();
    memory_.clear();
  }

  void copy() {
    const std::int64_t n = sizes_.parameters;
    auto* const from = filled<float>(n);
    auto* const to = filled<float>(n);
    pass("copy", {n}, 8, [&] { device_.copy(to, from, static_cast<std::size_t>(n) * 4); });
  }

  void norms() {
    const std::int64_t rows = sizes_.rows, h = sizes_.hidden;
    const engine::cpu::NormShape shape{rows, h};
    engine::Kernels<S>& k = device_.kernels<S>();
    const auto run = [&](const char* name, double least, const auto& call) {
      S* const x = filled<S>(rows * h);
      S* const y = filled<S>(rows * h);
      S* const d = filled<S>(rows * h);
      S* const weight = filled<S>(h);
      S* const bias = filled<S>(h);
      float* const mean = filled<float>(rows);
      float* const rstd = filled<float>(rows, 0.5F);
      float* const sums = filled<float>(2 * h);
      pass(name, {rows, h}, least, [&] { call(x, y, d, weight, bias, mean, rstd, sums); });
    };
    run("layer_norm", 4, [&](S* x, S* y, S*, S* w, S* b, float* mean, float* rstd, float*) {
      k.layer_norm_forward(y, mean, rstd, x, w, b, shape);
    });
    run("layer_norm_backward_input", 8,
        [&](S* x, S* y, S* d, S* w, S*, float* mean, float* rstd, float*) {
          k.layer_norm_backward_input(d, d, y, x, w, mean, rstd, shape);
        });
    run("layer_norm_backward_weight", 4,
        [&](S* x, S* y, S*, S*, S*, float* mean, float* rstd, float* sums) {
          k.layer_norm_backward_weight(sums, sums + h, y, x, mean, rstd, shape, 1);
        });
    run("rms_norm", 4, [&](S* x, S* y, S*, S* w, S*, float*, float* rstd, float*) {
      k.rms_norm_forward(y, rstd, x, w, shape);
    });
    run("rms_norm_backward_input", 8, [&](S* x, S* y, S* d, S* w, S*, float*, float* rstd, float*) {
      k.rms_norm_backward_input(d, d, y, x, w, rstd, shape);
    });
  }

  void activations() {
    const std::int64_t rows = sizes_.rows, f = 4 * sizes_.hidden;
    engine::Kernels<S>& k = device_.kernels<S>();
    S* const x = filled<S>(2 * rows * f);
    S* const d = filled<S>(2 * rows * f);
    S* const y = filled<S>(rows * f);
    const auto kept = std::move(memory_);
    pass("gelu", {rows, f}, 4, [&] { k.gelu(y, x, rows * f); });
    pass("gelu_backward", {rows, f}, 6, [&] { k.gelu_backward(d, y, x, rows * f); });
    pass("swiglu", {rows, f}, 6, [&] { k.swiglu(y, x, rows, f); });
    pass("swiglu_backward", {rows, f}, 10, [&] { k.swiglu_backward(d, y, x, rows, f); });
  }

  void rows_and_columns() {
    const std::int64_t rows = sizes_.rows, h = sizes_.hidden;
    engine::Kernels<S>& k = device_.kernels<S>();
    S* const x = filled<S>(rows * h);
    S* const y = filled<S>(rows * h);
    S* const row = filled<S>(h);
    float* const wide = filled<float>(rows * h);
    const auto kept = std::move(memory_);
    pass("bias_residual", {rows, h}, 8,
         [&] { k.bias_dropout_residual(y, wide, row, x, rows, h, nullptr, 0); });
    const engine::cpu::Dropout dropout{.rate = 0.1};
    pass("bias_dropout_residual", {rows, h}, 8,
         [&] { k.bias_dropout_residual(y, wide, row, x, rows, h, &dropout, 0); });
    pass("add_column_sums", {rows, h}, 2, [&] { k.add_column_sums(wide, x, rows, h, h, 1); });
    pass("narrow", {rows, h}, 6, [&] { k.narrow(y, wide, rows * h); });
    const engine::cpu::RotaryShape shape{rows, rows, h / 64, 64, h};
    float* const table = filled<float>(rows * 64);
    pass("rotary", {rows, h}, 4, [&] { k.rotary_forward(x, table, table + rows * 32, shape); });
    S* const embedding = filled<S>(sizes_.vocabulary * h);
    std::int32_t* const tokens = indices(rows, sizes_.vocabulary);
    pass("token_lookup", {rows, h}, 4, [&] {
      k.token_lookup(y, tokens, embedding, {0, sizes_.vocabulary}, rows, h);
    });
  }

  void cross_entropy() {
    const std::int64_t rows = sizes_.rows / 2, v = sizes_.vocabulary;
    const engine::cpu::LogitsShape shape{rows, v, v, 0, v, 1};
    engine::Kernels<S>& k = device_.kernels<S>();
    float* const logits = filled<float>(rows * v);
    float* const maximum = filled<float>(rows, 0.5F);
    float* const sums = filled<float>(2 * rows, 0.5F);
    std::int32_t* const targets = indices(rows, v);
    const auto kept = std::move(memory_);
    pass("cross_entropy_statistics", {rows, v}, 4,
         [&] { k.cross_entropy_statistics(maximum, sums, sums + rows, logits, targets, shape); });
    pass("cross_entropy_backward", {rows, v}, 8,
         [&] { k.cross_entropy_backward(logits, targets, maximum, sums, 1e-3F, shape); });
    pass("cross_entropy_backward_narrow", {rows, v}, 6,
         [&] { k.cross_entropy_backward_narrow(logits, targets, maximum, sums, 1e-3F, shape); });
  }

  void update() {
    const std::int64_t n = sizes_.parameters;
    const auto count = static_cast<std::size_t>(n);
    const std::span weights(filled<float>(n), count), gradients(filled<float>(n), count);
    const std::span m(filled<float>(n), count), v(filled<float>(n, 0), count);
    S* const stored = filled<S>(n);
    const auto kept = std::move(memory_);
    const engine::AdamwOptions adamw;
    pass("adamw", {n}, 28, [&] { device_.adamw_step(weights, gradients, m, v, 10, adamw, {}); });
    pass("adamw_stored", {n}, 30, [&] {
      device_.adamw_step(weights, gradients, m, v, 10, adamw, {stored, DType::kBFloat16});
    });
    pass("ema", {n}, 12, [&] { device_.ema_step(m, weights, 0.99F); });
    pass("add", {n}, 12, [&] { device_.add(m.data(), gradients.data(), n); });
  }

  // The products of an MLP, alone and with what may follow them.
  void products() {
    const std::int64_t rows = sizes_.rows, h = sizes_.hidden, f = 4 * h;
    S* const x = filled<S>(rows * h);
    S* const wide = filled<S>(rows * f);
    S* const wide_out = filled<S>(rows * f);
    S* const out = filled<S>(rows * h);
    S* const weights = filled<S>(h * f);
    S* const bias = filled<S>(f);
    float* const gradient = filled<float>(h * f);
    float* const sums = filled<float>(f);
    const FixedProduct up{
        rows, f, h, matrix(x, h), matrix(weights, h, Transpose::kYes), result(wide_out, f)};
    const FixedProduct down{
        rows, h, f, matrix(wide, f), matrix(weights, f, Transpose::kYes), result(out, h)};
    const FixedProduct back{rows, f, h, matrix(x, h), matrix(weights, f), result(wide_out, f)};
    const FixedProduct weight{
        f,    h,   rows, matrix(wide, f, Transpose::kYes), matrix(x, h), result(gradient, h),
        1.0F, true};
    using Kind = ProductEpilogue::Kind;
    with_rest("up", up,
              {{"bias", {.kind = Kind::kBias, .bias = bias}},
               {"bias_gelu", {.kind = Kind::kGelu, .bias = bias, .before_gelu = wide}}});
    with_rest("down", down,
              {{"bias_residual", {.kind = Kind::kResidual, .bias = bias, .residual = x}}});
    with_rest("input_gradient", back,
              {{"gelu", {.kind = Kind::kGeluBackward, .before_gelu = wide}}});
    with_rest("weight_gradient", weight,
              {{"bias_gradient", {.kind = Kind::kRowSums, .row_sums = sums}}});
    forget();
  }
  void with_rest(const std::string& name, const FixedProduct& p,
                 const std::vector<std::pair<std::string, ProductEpilogue>>& fused) {
    product(name, p, [&] { products_->run(p); });
    for (const auto& rest : fused) {
      if (!products_->run_fused(p, rest.second)) continue;
      product(name + "+" + rest.first, p, [&] { products_->run_fused(p, rest.second); });
    }
  }

  void attention() {
    for (const std::int64_t width : {64, 128}) {
      const std::int64_t b = sizes_.batch, s = sizes_.sequence, h = sizes_.heads;
      const auto at = engine::cpu::packed_attention(b, s, h, h, width, true);
      S* const qkv = filled<S>(b * s * at.q_stride);
      S* const d_qkv = filled<S>(b * s * at.q_stride);
      S* const out = filled<S>(b * s * at.out_stride);
      S* const d_out = filled<S>(b * s * at.out_stride);
      float* const lse = filled<float>(b * h * s);
      float* const scratch = filled<float>(engine::cpu::attention_backward_scratch(at));
      engine::Kernels<S>& kernels = device_.kernels<S>();
      const std::int64_t k = h * width, v = 2 * k;
      // Two products over the half of the scores that are seen; five.
      const double scores = 0.5 * static_cast<double>(b * h) * static_cast<double>(s * s);
      const double one = 2 * scores * static_cast<double>(width);
      const std::string shape = shape_text({b, h, s, width});
      const auto forward = [&] {
        kernels.attention_forward(out, lse, qkv, qkv + k, qkv + v, at, nullptr, scratch);
      };
      const auto backward = [&] {
        kernels.attention_backward(d_qkv, d_qkv + k, d_qkv + v, d_out, out, lse, qkv, qkv + k,
                                   qkv + v, at, nullptr, scratch);
      };
      measured.products.push_back({"attention", shape, 2 * one, seconds_of(forward)});
      measured.products.push_back({"attention_backward", shape, 5 * one, seconds_of(backward)});
      forget();
    }
  }

  Device& device_;
  const Sizes sizes_;
  std::unique_ptr<engine::Products> products_;
  std::vector<std::unique_ptr<engine::DeviceMemory>> memory_;
  std::mt19937_64 random_{7};
};

}  // namespace
}  // namespace nqd::tests

int main(int argc, char** argv) {
  using namespace nqd;
  bool json = false, on_cpu = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string_view next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--json") {
      json = true;
    } else if (word == "--device" && (next == "cpu" || next == "cuda")) {
      on_cpu = next == "cpu";
      ++i;
    } else {
      std::cerr << "usage: nqd_kernel_bench [--device cuda|cpu] [--json]\n";
      return 2;
    }
  }
  const engine::CudaStatus status = engine::cuda_status();
  if (!on_cpu && status.devices.empty()) {
    std::cout << "SKIP: no CUDA device: " << status.reason << "\n";
    return 77;
  }
  try {
    const std::unique_ptr<engine::Device> device =
        on_cpu ? std::make_unique<engine::CpuDevice>()
               : engine::make_cuda_device(0, [] { return std::string(); });
    tests::Bench bench(*device, on_cpu ? tests::kSmall : tests::kLarge);
    bench.run();
    if (json) {
      tests::print_json(on_cpu ? "CPU" : status.devices.front().name, device->attention_library(),
                        bench.measured);
    } else {
      tests::print_table(bench.measured);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
