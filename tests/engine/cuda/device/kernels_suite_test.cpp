// Kernels on a device, against their CPU counterparts. The shapes are a layer's, and some that no
// 16-byte access fits.
#include <doctest/doctest.h>

#include "engine/cpu/activations.h"
#include "engine/cpu/convert.h"
#include "engine/cpu/epilogue.h"
#include "engine/cuda/kernels/activations.h"
#include "engine/cuda/kernels/convert.h"
#include "engine/cuda/kernels/epilogue.h"
#include "engine/cuda/kernels/lookup.h"
#include "engine/cuda/kernels/norms.h"
#include "engine/cuda/kernels/optimizer.h"
#include "engine/cuda/kernels/pooling.h"
#include "engine/cuda/kernels/rotary.h"
#include "tests/engine/cuda/close.h"
#include "tests/engine/cuda/device/gpu_array.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

struct Shape {
  std::int64_t rows, width;
  std::size_t skew;
};
constexpr Shape kShapes[] = {{1031, 768, 0}, {257, 333, 1}};

TEST_CASE_TEMPLATE("activations", S, float, BFloat16, Float16) {
  for (const Shape& s : kShapes) {
    const std::int64_t n = s.rows * s.width;
    const auto x = random_stored<S>(index(2 * n), 1, 4.0), dy = random_stored<S>(index(n), 2);
    GpuArray<S> gpu_x(x, s.skew), gpu_dy(dy, s.skew), gpu_y(dy, s.skew), gpu_dx(x, s.skew);
    std::vector<S> y(index(n)), dx(index(2 * n));
    cpu::gelu(y.data(), x.data(), n);
    gelu<S>(test_stream(), gpu_y, gpu_x, n);
    check_close<S>(gpu_y.values(), y, 8);
    cpu::gelu_backward(y.data(), dy.data(), x.data(), n);
    gelu_backward<S>(test_stream(), gpu_y, gpu_dy, gpu_x, n);
    check_close<S>(gpu_y.values(), y, 8);
    cpu::swiglu(y.data(), x.data(), s.rows, s.width);
    swiglu<S>(test_stream(), gpu_y, gpu_x, s.rows, s.width);
    check_close<S>(gpu_y.values(), y, 8);
    cpu::swiglu_backward(dx.data(), dy.data(), x.data(), s.rows, s.width);
    swiglu_backward<S>(test_stream(), gpu_dx, gpu_dy, gpu_x, s.rows, s.width);
    check_close<S>(gpu_dx.values(), dx, 8);
  }
}

TEST_CASE_TEMPLATE("norms and column sums", S, float, BFloat16, Float16) {
  for (const Shape& s : kShapes) {
    const cpu::NormShape shape{s.rows, s.width};
    const auto n = index(s.rows * s.width), rows = index(s.rows), width = index(s.width);
    const auto x = random_stored<S>(n, 1), dy = random_stored<S>(n, 2);
    const auto w = random_stored<S>(width, 3), b = random_stored<S>(width, 4);
    std::vector<S> y(n), dx(n);
    std::vector<float> mean(rows), rstd(rows), dw(width), db(width);
    GpuArray<S> gx(x, s.skew), gdy(dy, s.skew), gw(w, s.skew), gb(b, s.skew), gy(y, s.skew);
    GpuArray<float> gmean(mean), grstd(rstd), gdw(dw), gdb(db);
    GpuArray<float> scratch(index(column_sums_scratch(2, s.rows, s.width, 1)));
    cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(),
                            shape);
    layer_norm_forward<S>(test_stream(), gy, gmean, grstd, gx, gw, gb, shape);
    check_close<S>(gy.values(), y, 16);
    check_close<float>(gmean.values(), mean, 16);
    cpu::layer_norm_backward_input(dx.data(), x.data(), dy.data(), x.data(), w.data(), mean.data(),
                                   rstd.data(), shape);
    layer_norm_backward_input<S>(test_stream(), gy, gx, gdy, gx, gw, gmean, grstd, shape);
    check_close<S>(gy.values(), dx, 16);
    cpu::layer_norm_backward_weight(dw.data(), db.data(), dy.data(), x.data(), mean.data(),
                                    rstd.data(), shape, 1);
    layer_norm_backward_weight<S>(test_stream(), gdw, gdb, gdy, gx, gmean, grstd, shape, 1,
                                  scratch);
    check_close<float>(gdw.values(), dw, 256);
    check_close<float>(gdb.values(), db, 256);

    cpu::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), shape);
    rms_norm_forward<S>(test_stream(), gy, grstd, gx, gw, shape);
    check_close<S>(gy.values(), y, 16);
    const S* const none = nullptr;
    cpu::rms_norm_backward_input(dx.data(), none, dy.data(), x.data(), w.data(), rstd.data(),
                                 shape);
    rms_norm_backward_input<S>(test_stream(), gy, none, gdy, gx, gw, grstd, shape);
    check_close<S>(gy.values(), dx, 16);
    std::fill(dw.begin(), dw.end(), 0.0F);
    cpu::rms_norm_backward_weight(dw.data(), dy.data(), x.data(), rstd.data(), shape, 1);
    cpu::add_column_sums(dw.data(), x.data(), s.rows, s.width, s.width, 1);
    GpuArray<float> sums(width);
    rms_norm_backward_weight<S>(test_stream(), sums, gdy, gx, grstd, shape, 1, scratch);
    add_column_sums<S>(test_stream(), sums, gx, s.rows, s.width, s.width, 1, scratch);
    check_close<float>(sums.values(), dw, 256);
  }
}

TEST_CASE_TEMPLATE("lookups, positions and their gradients, to the bit", S, float, BFloat16,
                   Float16) {
  for (const Shape& s : kShapes) {
    const std::int64_t entries = 700, sequence = 128;
    const cpu::VocabularyRange range{50, 50 + entries};
    std::vector<std::int32_t> tokens(index(s.rows));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = i % 3 == 0 ? 99 : static_cast<std::int32_t>(i * 2654435761U % 800);
    }
    const auto table = random_stored<S>(index(entries * s.width), 1);
    const auto positions = random_stored<S>(index(sequence * s.width), 2);
    const auto d = random_stored<S>(index(s.rows * s.width), 3);
    std::vector<S> out(d.size());
    std::vector<float> d_table(table.size()), d_positions(positions.size());
    cpu::token_lookup(out.data(), tokens.data(), table.data(), range, s.rows, s.width);
    cpu::add_positions(out.data(), positions.data(), 5, s.rows, sequence, s.width);
    cpu::token_lookup_backward(d_table.data(), d.data(), tokens.data(), range, s.rows, s.width);
    cpu::add_positions_backward(d_positions.data(), d.data(), 5, s.rows, sequence, s.width, 1);
    GpuArray<std::int32_t> gtokens(tokens), scratch(index(token_lookup_backward_scratch(s.rows)));
    GpuArray<S> gtable(table, s.skew), gpositions(positions, s.skew), gd(d, s.skew),
        gout(d, s.skew);
    GpuArray<float> gd_table(d_table.size()), gd_positions(d_positions.size());
    token_lookup<S>(test_stream(), gout, gtokens, gtable, range, s.rows, s.width);
    add_positions<S>(test_stream(), gout, gpositions, 5, s.rows, sequence, s.width);
    token_lookup_backward<S>(test_stream(), gd_table, gd, gtokens, range, s.rows, s.width, scratch);
    add_positions_backward<S>(test_stream(), gd_positions, gd, 5, s.rows, sequence, s.width, 1);
    CHECK(same_bits(gout.values(), out));
    CHECK(same_bits(gd_table.values(), d_table));
    CHECK(same_bits(gd_positions.values(), d_positions));
  }
}

TEST_CASE_TEMPLATE("bias, dropout, residual and rotary, to the bit", S, float, BFloat16, Float16) {
  const cpu::Dropout dropout{0.1, 77, 3, 2, cpu::DropoutSite::kMlpOutput};
  for (const Shape& s : kShapes) {
    const auto n = index(s.rows * s.width);
    const auto product = random_stored<float>(n, 1);
    const auto bias = random_stored<S>(index(s.width), 2), residual = random_stored<S>(n, 3);
    std::vector<S> out(n);
    GpuArray<float> gproduct(product, s.skew);
    GpuArray<S> gbias(bias, s.skew), gresidual(residual, s.skew), gout(out, s.skew);
    for (const cpu::Dropout* d : {static_cast<const cpu::Dropout*>(nullptr), &dropout}) {
      cpu::bias_dropout_residual(out.data(), product.data(), bias.data(), residual.data(), s.rows,
                                 s.width, d, 3);
      bias_dropout_residual<S>(test_stream(), gout, gproduct, gbias, gresidual, s.rows, s.width, d,
                               3);
      CHECK(same_bits(gout.values(), out));
    }
  }
  const cpu::RotaryShape shape{300, 64, 3, 64, 200};
  std::vector<float> cosines(64 * 32), sines(64 * 32);
  std::vector<double> frequencies(32, 0.3);
  cpu::rotary_table(cosines.data(), sines.data(), 64, std::span<const double>(frequencies));
  auto x = random_stored<S>(index(300 * 200), 5);
  GpuArray<S> gx(x);
  GpuArray<float> gcosines(cosines), gsines(sines);
  cpu::rotary_forward(x.data(), cosines.data(), sines.data(), shape);
  rotary_forward<S>(test_stream(), gx, gcosines, gsines, shape);
  CHECK(same_bits(gx.values(), x));
}

TEST_CASE_TEMPLATE("the update, conversions and sums", S, BFloat16, Float16) {
  const std::int64_t n = 100003;
  auto w = random_stored<float>(index(n), 1), m = random_stored<float>(index(n), 2, 0.1), v = m;
  const auto g = random_stored<float>(index(n), 3);
  for (float& value : v) value = std::abs(value);
  std::vector<S> stored(index(n));
  GpuArray<float> gw(w), gg(g), gm(m), gv(v), gu(m), gwide(w);
  GpuArray<S> gstored(stored), glow(stored);
  adamw_step<S>(test_stream(), gw, gstored, gg, gm, gv, n, 7, AdamwOptions{});
  engine::adamw_step<S>(w, stored, g, m, v, 7, AdamwOptions{});
  CHECK(same_bits(gw.values(), w));
  CHECK(same_bits(gm.values(), m));
  CHECK(same_bits(gv.values(), v));
  CHECK(same_bits(gstored.values(), stored));
  widen_all<S>(test_stream(), gwide, gstored, n);
  add_all<S>(test_stream(), gwide, gstored, n);
  narrow_all<S>(test_stream(), glow, gwide, n);
  std::vector<float> wide(index(n));
  cpu::widen_all(wide.data(), stored.data(), n);
  cpu::add_all(wide.data(), stored.data(), n);
  cpu::narrow_all(stored.data(), wide.data(), n);
  CHECK(same_bits(glow.values(), stored));
  double expected = 0;
  for (const float value : g) expected += static_cast<double>(value) * value;
  GpuArray<double> sum(1), scratch(index(sum_of_squares_scratch(n)));
  sum_of_squares(test_stream(), sum, gg, n, scratch);
  CHECK(sum.values()[0] == doctest::Approx(expected).epsilon(1e-12));
  GpuArray<std::int64_t> found(1), blocks(index(kNonFiniteScratch));
  first_non_finite<float>(test_stream(), found, gg, n, blocks);
  CHECK(found.values()[0] == -1);
}

}  // namespace
}  // namespace nqd::engine::cuda
