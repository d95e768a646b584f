// Products of a device that fuses, by the passes that a fused operation stands for, in the order
// and with the roundings of layers that call them one by one.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/device/device.h"

namespace nqd::tests {

// Fused operations by kind (engine::ProductEpilogue::Kind).
using FusedCalls = std::array<int, 5>;

class FusingProducts final : public engine::Products {
 public:
  // Both must outlive it.
  FusingProducts(std::unique_ptr<engine::Products> products, engine::Device& device,
                 FusedCalls& calls)
      : products_(std::move(products)), device_(device), calls_(calls) {}

  bool fuses() const override { return true; }
  bool run_fused(const engine::FixedProduct& product,
                 const engine::ProductEpilogue& epilogue) override {
    ++calls_[static_cast<std::size_t>(epilogue.kind)];
    if (product.a.type == DType::kFloat32) {
      fused<float>(product, epilogue);
    } else if (product.a.type == DType::kBFloat16) {
      fused<BFloat16>(product, epilogue);
    } else {
      fused<Float16>(product, epilogue);
    }
    return true;
  }
  void run(const engine::FixedProduct& product) override { products_->run(product); }
  void run_sliced(engine::FixedProduct product, std::int64_t full) override {
    products_->run_sliced(product, full);
  }
  void run_stacked(float* out, std::int64_t m, std::int64_t n,
                   std::span<const engine::StackedBlock> blocks, int tp) override {
    products_->run_stacked(out, m, n, blocks, tp);
  }

 private:
  template <typename S>
  void fused(engine::FixedProduct p, const engine::ProductEpilogue& e) {
    using Kind = engine::ProductEpilogue::Kind;
    engine::Kernels<S>& kernels = device_.kernels<S>();
    S* const c = static_cast<S*>(p.c.data);
    S* const before_gelu = static_cast<S*>(e.before_gelu);
    const S* const bias = static_cast<const S*>(e.bias);
    switch (e.kind) {
      case Kind::kBias:
        return with_bias(p, bias);
      case Kind::kResidual:
        return with_residual(p, bias, static_cast<const S*>(e.residual));
      case Kind::kGelu:
        REQUIRE(p.c.stride == p.n);
        p.c.data = e.before_gelu;
        with_bias(p, bias);
        return kernels.gelu(c, before_gelu, p.m * p.n);
      case Kind::kGeluBackward:
        REQUIRE(p.c.stride == p.n);
        products_->run(p);
        return kernels.gelu_backward(c, c, before_gelu, p.m * p.n);
      case Kind::kRowSums:
        REQUIRE(p.a.op == engine::Transpose::kYes);
        REQUIRE(p.c.type == DType::kFloat32);
        products_->run(p);
        return kernels.add_column_sums(e.row_sums, static_cast<const S*>(p.a.data), p.k, p.m,
                                       p.a.stride, 1);
    }
  }

  template <typename S>
  void with_bias(engine::FixedProduct p, const S* bias) {
    if (bias != nullptr) {
      device_.kernels<S>().spread_row(static_cast<S*>(p.c.data), p.c.stride, bias, p.m, p.n);
      p.accumulate = true;
    }
    products_->run(p);
  }

  template <typename S>
  void with_residual(engine::FixedProduct p, const S* bias, const S* residual) {
    REQUIRE(p.c.stride == p.n);
    engine::Kernels<S>& kernels = device_.kernels<S>();
    S* const c = static_cast<S*>(p.c.data);
    if constexpr (std::is_same_v<S, float>) {
      kernels.bias_dropout_residual(c, residual, bias, nullptr, p.m, p.n, nullptr, 0);
      p.accumulate = true;
      products_->run(p);
    } else {
      std::vector<float> sums(static_cast<std::size_t>(p.m * p.n));
      p.c = engine::result(sums.data(), p.n);
      products_->run(p);
      kernels.bias_dropout_residual(c, sums.data(), bias, residual, p.m, p.n, nullptr, 0);
    }
  }

  std::unique_ptr<engine::Products> products_;
  engine::Device& device_;
  FusedCalls& calls_;
};

}  // namespace nqd::tests
