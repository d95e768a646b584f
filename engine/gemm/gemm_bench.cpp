#include "engine/gemm/gemm_bench.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/ledger.h"
#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/gemm/gemm.h"

namespace nqd::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Shape {
  std::int64_t m, n, k;
  Transpose a_op, b_op;
  bool operator==(const Shape&) const = default;
};

std::string layout_name(const Shape& shape) {
  const auto letter = [](Transpose op) { return op == Transpose::kYes ? 'T' : 'N'; };
  return {letter(shape.a_op), letter(shape.b_op)};
}

std::vector<Shape> shapes_of(const planner::ModelSpec& model, std::int64_t micro_batch_size) {
  constexpr Transpose kN = Transpose::kNo;
  constexpr Transpose kT = Transpose::kYes;
  const std::int64_t rows = micro_batch_size * model.sequence;
  const std::int64_t h = model.hidden;
  std::vector<Shape> shapes;
  const auto add = [&shapes](const Shape& shape) {
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  };
  const auto add_linear = [&](std::int64_t in, std::int64_t out) {
    add({rows, out, in, kN, kT});
    add({rows, in, out, kN, kN});
    add({out, in, rows, kT, kN});
  };
  add_linear(h, 3 * h);
  add_linear(h, h);
  add_linear(h, model.ffn_hidden);
  add_linear(model.ffn_hidden, h);
  add_linear(h, model.vocab);
  return shapes;
}

// One shape with operands of its own; values are small and never denormal.
class TimedProduct {
 public:
  explicit TimedProduct(const Shape& shape)
      : shape_(shape),
        a_(static_cast<std::size_t>(shape.m * shape.k)),
        b_(static_cast<std::size_t>(shape.k * shape.n)),
        c_(static_cast<std::size_t>(shape.m * shape.n)) {
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = 0.01F * static_cast<float>(i % 97 + 1);
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = 0.01F * static_cast<float>(i % 89 + 1);
  }
  // With `fixed`, or with the library where that is null.
  double run(FixedGemm* fixed) {
    const bool a_transposed = shape_.a_op == Transpose::kYes;
    const bool b_transposed = shape_.b_op == Transpose::kYes;
    const std::int64_t a_stride = a_transposed ? shape_.m : shape_.k;
    const std::int64_t b_stride = b_transposed ? shape_.k : shape_.n;
    const Clock::time_point start = Clock::now();
    if (fixed != nullptr) {
      fixed->run({shape_.m,
                  shape_.n,
                  shape_.k,
                  {a_.data(), a_stride, shape_.a_op},
                  {b_.data(), b_stride, shape_.b_op},
                  {c_.data(), shape_.n}});
    } else {
      gemm(shape_.a_op, shape_.b_op, shape_.m, shape_.n, shape_.k, 1.0F, a_.data(), a_stride,
           b_.data(), b_stride, 0.0F, c_.data(), shape_.n);
    }
    return seconds_since(start);
  }
  const Shape& shape() const { return shape_; }

 private:
  Shape shape_;
  std::vector<float> a_, b_, c_;
};

collectives::GemmRow summarise(const Shape& shape, std::string library,
                               std::vector<double> samples_s) {
  collectives::GemmRow row;
  row.m = shape.m;
  row.n = shape.n;
  row.k = shape.k;
  row.layout = layout_name(shape);
  row.library = std::move(library);
  std::vector<double> sorted = samples_s;
  std::sort(sorted.begin(), sorted.end());
  row.p50_s = sorted[(sorted.size() - 1) / 2];
  row.gflops = 2e-9 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
               static_cast<double>(shape.k) / row.p50_s;
  row.samples_s = std::move(samples_s);
  return row;
}

}  // namespace

std::vector<collectives::GemmRow> run_gemm_bench(const planner::ModelSpec& model,
                                                 std::int64_t micro_batch_size, int iterations,
                                                 GemmKind kind) {
  std::optional<FixedGemm> own;
  if (kind == GemmKind::kFixed) own.emplace(nullptr);
  FixedGemm* const fixed = own ? &*own : nullptr;
  std::vector<TimedProduct> products;
  for (const Shape& shape : shapes_of(model, micro_batch_size)) products.emplace_back(shape);
  for (TimedProduct& product : products) product.run(fixed);
  std::vector<std::vector<double>> samples_s(products.size());
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (std::size_t i = 0; i < products.size(); ++i) {
      samples_s[i].push_back(products[i].run(fixed));
    }
  }
  const std::string library = (fixed != nullptr ? fixed_gemm_library() : gemm_library()).name;
  std::vector<collectives::GemmRow> rows;
  for (std::size_t i = 0; i < products.size(); ++i) {
    rows.push_back(summarise(products[i].shape(), library, std::move(samples_s[i])));
  }
  return rows;
}

CopyBandwidth measure_copy() {
  constexpr std::size_t kElements = std::size_t{16} << 20;  // 64 MiB an array
  constexpr int kPasses = 5;
  Buffer a(nullptr, MemoryTag::kWorkspace, kElements * sizeof(float));
  Buffer b(nullptr, MemoryTag::kWorkspace, kElements * sizeof(float));
  Buffer c(nullptr, MemoryTag::kWorkspace, kElements * sizeof(float));
  double best_s = std::numeric_limits<double>::infinity();
  double best_cpu_s = best_s;
  for (int pass = 0; pass < kPasses; ++pass) {
    float* __restrict out = a.as<float>();
    const float* __restrict left = b.as<float>();
    const float* __restrict right = c.as<float>();
    const float factor = 1.0F + static_cast<float>(pass);
    const double cpu_start_s = thread_cpu_s();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < kElements; ++i) out[i] = left[i] + factor * right[i];
    best_s = std::min(best_s, seconds_since(start));
    best_cpu_s = std::min(best_cpu_s, thread_cpu_s() - cpu_start_s);
    // The next pass reads what this one wrote, so that no pass can be dropped.
    std::swap(a, b);
  }
  constexpr double kBytes = 3.0 * kElements * sizeof(float);
  return {kBytes / best_s, kBytes / best_cpu_s};
}

double measure_copy_bandwidth() { return measure_copy().bytes_per_s; }

double thread_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace nqd::engine
