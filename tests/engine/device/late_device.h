// A device that does nothing until it has to: every operation waits in a queue for a call that the
// contract of engine/device/device.h lets wait. What a caller reads, writes or sends too early, and
// what it takes back after a call returned, is then wrong on a CPU as it would be on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/device/cpu_device.h"
#include "engine/device/repeated_parts.h"
#include "tests/engine/device/fusing_products.h"

namespace nqd::tests {

class Queue {
 public:
  using Operations = std::vector<std::function<void()>>;

  // Operations go to a stream that does them by itself, and run() is `wait`.
  void go_on(std::function<void(std::function<void()>)> stream, std::function<void()> wait) {
    stream_ = std::move(stream);
    wait_ = std::move(wait);
  }

  void add(std::function<void()> operation) {
    if (stream_) return stream_(std::move(operation));
    (recording_ != nullptr ? *recording_ : waiting_).push_back(std::move(operation));
  }
  // Of what the host takes part in: a recording has no place for it.
  void add_once(std::function<void()> operation) {
    refuse_while_recording();
    add(std::move(operation));
  }
  void run() {
    refuse_while_recording();
    if (wait_) wait_();
    for (const auto& operation : waiting_) operation();
    waiting_.clear();
  }
  // What body() adds, which does not wait here.
  Operations record(const std::function<void()>& body) {
    Operations operations;
    recording_ = &operations;
    body();
    recording_ = nullptr;
    return operations;
  }
  void add(const Operations& recorded) {
    waiting_.insert(waiting_.end(), recorded.begin(), recorded.end());
  }

 private:
  void refuse_while_recording() const {
    if (recording_ != nullptr) throw std::logic_error("a recorded part waits for the host");
  }

  Operations waiting_;
  Operations* recording_ = nullptr;
  std::function<void(std::function<void()>)> stream_;
  std::function<void()> wait_;
};

// What a device takes for granted when it repeats.
enum class LateFault : std::uint8_t {
  kNone,
  kSameArguments,  // arguments never vary
  kSameBuffers,    // all micro-batches use the buffers of one
  kSameMasks,      // dropout draws those of the step that was recorded
};

template <typename S>
class LateKernels final : public engine::Kernels<S> {
 public:
  LateKernels(engine::Kernels<S>& kernels, Queue& queue, LateFault fault)
      : kernels_(kernels), queue_(queue), fault_(fault) {}

  void layer_norm_forward(S* y, float* mean, float* rstd, const S* x, const S* weight,
                          const S* bias, const engine::cpu::NormShape& shape) override {
    later([=](auto& k) { k.layer_norm_forward(y, mean, rstd, x, weight, bias, shape); });
  }
  void layer_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x, const S* weight,
                                 const float* mean, const float* rstd,
                                 const engine::cpu::NormShape& shape) override {
    later([=](auto& k) {
      k.layer_norm_backward_input(dx, residual, dy, x, weight, mean, rstd, shape);
    });
  }
  void layer_norm_backward_weight(float* d_weight, float* d_bias, const S* dy, const S* x,
                                  const float* mean, const float* rstd,
                                  const engine::cpu::NormShape& shape,
                                  std::int64_t blocks) override {
    later([=](auto& k) {
      k.layer_norm_backward_weight(d_weight, d_bias, dy, x, mean, rstd, shape, blocks);
    });
  }
  void rms_norm_forward(S* y, float* rstd, const S* x, const S* weight,
                        const engine::cpu::NormShape& shape) override {
    later([=](auto& k) { k.rms_norm_forward(y, rstd, x, weight, shape); });
  }
  void rms_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x, const S* weight,
                               const float* rstd, const engine::cpu::NormShape& shape) override {
    later([=](auto& k) { k.rms_norm_backward_input(dx, residual, dy, x, weight, rstd, shape); });
  }
  void rms_norm_backward_weight(float* d_weight, const S* dy, const S* x, const float* rstd,
                                const engine::cpu::NormShape& shape, std::int64_t blocks) override {
    later([=](auto& k) { k.rms_norm_backward_weight(d_weight, dy, x, rstd, shape, blocks); });
  }
  void add_column_sums(float* sums, const S* x, std::int64_t rows, std::int64_t width,
                       std::int64_t stride, std::int64_t blocks) override {
    later([=](auto& k) { k.add_column_sums(sums, x, rows, width, stride, blocks); });
  }
  void gelu(S* y, const S* x, std::int64_t count) override {
    later([=](auto& k) { k.gelu(y, x, count); });
  }
  void gelu_backward(S* dx, const S* dy, const S* x, std::int64_t count) override {
    later([=](auto& k) { k.gelu_backward(dx, dy, x, count); });
  }
  void swiglu(S* y, const S* x, std::int64_t rows, std::int64_t width) override {
    later([=](auto& k) { k.swiglu(y, x, rows, width); });
  }
  void swiglu_backward(S* dx, const S* dy, const S* x, std::int64_t rows,
                       std::int64_t width) override {
    later([=](auto& k) { k.swiglu_backward(dx, dy, x, rows, width); });
  }
  void rotary_forward(S* x, const float* cosines, const float* sines,
                      const engine::cpu::RotaryShape& shape) override {
    later([=](auto& k) { k.rotary_forward(x, cosines, sines, shape); });
  }
  void rotary_backward(S* d, const float* cosines, const float* sines,
                       const engine::cpu::RotaryShape& shape) override {
    later([=](auto& k) { k.rotary_backward(d, cosines, sines, shape); });
  }
  void attention_forward(S* out, float* lse, const S* q, const S* k, const S* v,
                         const engine::cpu::AttentionLayout& layout,
                         const engine::cpu::AttentionDropout* dropout, float* scratch) override {
    later([=, kept = kept(dropout)](auto& on) {
      on.attention_forward(out, lse, q, k, v, layout, kept ? &*kept : nullptr, scratch);
    });
  }
  void attention_backward(S* dq, S* dk, S* dv, const S* d_out, const S* out, const float* lse,
                          const S* q, const S* k, const S* v,
                          const engine::cpu::AttentionLayout& layout,
                          const engine::cpu::AttentionDropout* dropout, float* scratch) override {
    later([=, kept = kept(dropout)](auto& on) {
      on.attention_backward(dq, dk, dv, d_out, out, lse, q, k, v, layout, kept ? &*kept : nullptr,
                            scratch);
    });
  }
  void bias_dropout_residual(S* out, const float* product, const S* bias, const S* residual,
                             std::int64_t rows, std::int64_t width,
                             const engine::cpu::Dropout* dropout, std::int64_t first_row) override {
    later([=, kept = kept(dropout)](auto& k) {
      k.bias_dropout_residual(out, product, bias, residual, rows, width, kept ? &*kept : nullptr,
                              first_row);
    });
  }
  void apply_dropout(S* y, const S* x, const engine::cpu::Dropout& dropout, std::int64_t first,
                     std::int64_t count) override {
    later([=, kept = *kept(&dropout)](auto& k) { k.apply_dropout(y, x, kept, first, count); });
  }
  void token_lookup(S* out, const std::int32_t* tokens, const S* table,
                    const engine::cpu::VocabularyRange& range, std::int64_t rows,
                    std::int64_t width) override {
    later([=](auto& k) { k.token_lookup(out, tokens, table, range, rows, width); });
  }
  void token_lookup_backward(float* d_table, const S* d_out, const std::int32_t* tokens,
                             const engine::cpu::VocabularyRange& range, std::int64_t rows,
                             std::int64_t width) override {
    later([=](auto& k) { k.token_lookup_backward(d_table, d_out, tokens, range, rows, width); });
  }
  void add_positions(S* x, const S* positions, std::int64_t first_row, std::int64_t rows,
                     std::int64_t sequence, std::int64_t width) override {
    later([=](auto& k) { k.add_positions(x, positions, first_row, rows, sequence, width); });
  }
  void add_positions_backward(float* d_positions, const S* d_x, std::int64_t first_row,
                              std::int64_t rows, std::int64_t sequence, std::int64_t width,
                              std::int64_t blocks) override {
    later([=](auto& k) {
      k.add_positions_backward(d_positions, d_x, first_row, rows, sequence, width, blocks);
    });
  }
  void mean_rows(S* out, const S* in, const engine::cpu::PoolingShape& shape) override {
    later([=](auto& k) { k.mean_rows(out, in, shape); });
  }
  void mean_rows_backward(float* d_in, const float* d_out, std::int64_t first_row,
                          std::int64_t rows, std::int64_t steps, std::int64_t width) override {
    later([=](auto& k) { k.mean_rows_backward(d_in, d_out, first_row, rows, steps, width); });
  }
  void cross_entropy_maximum(float* maximum, const float* logits,
                             const engine::cpu::LogitsShape& shape) override {
    later([=](auto& k) { k.cross_entropy_maximum(maximum, logits, shape); });
  }
  void cross_entropy_sums(float* sum, float* target_logit, const float* logits,
                          const std::int32_t* targets, const float* maximum,
                          const engine::cpu::LogitsShape& shape) override {
    later(
        [=](auto& k) { k.cross_entropy_sums(sum, target_logit, logits, targets, maximum, shape); });
  }
  void cross_entropy_statistics(float* maximum, float* sum, float* target_logit,
                                const float* logits, const std::int32_t* targets,
                                const engine::cpu::LogitsShape& shape) override {
    later([=](auto& k) {
      k.cross_entropy_statistics(maximum, sum, target_logit, logits, targets, shape);
    });
  }
  void cross_entropy_losses(double* loss, const float* maximum, const float* sum,
                            const float* target_logit, const std::int32_t* targets,
                            std::int64_t rows) override {
    later(
        [=](auto& k) { k.cross_entropy_losses(loss, maximum, sum, target_logit, targets, rows); });
  }
  void cross_entropy_backward(float* logits, const std::int32_t* targets, const float* maximum,
                              const float* sum, float scale,
                              const engine::cpu::LogitsShape& shape) override {
    later([=](auto& k) { k.cross_entropy_backward(logits, targets, maximum, sum, scale, shape); });
  }
  void cross_entropy_backward_narrow(float* logits, const std::int32_t* targets,
                                     const float* maximum, const float* sum, float scale,
                                     const engine::cpu::LogitsShape& shape) override {
    later([=](auto& k) {
      k.cross_entropy_backward_narrow(logits, targets, maximum, sum, scale, shape);
    });
  }
  void spread_row(S* out, std::int64_t stride, const S* row, std::int64_t rows,
                  std::int64_t width) override {
    later([=](auto& k) { k.spread_row(out, stride, row, rows, width); });
  }
  void spread_to_logits(float* logits, const S* row, std::int64_t rows,
                        std::int64_t width) override {
    later([=](auto& k) { k.spread_to_logits(logits, row, rows, width); });
  }
  void add_logit_sums(float* sums, const float* d_logits, std::int64_t rows,
                      std::int64_t width) override {
    later([=](auto& k) { k.add_logit_sums(sums, d_logits, rows, width); });
  }
  void narrow(S* to, const float* from, std::int64_t count) override {
    later([=](auto& k) { k.narrow(to, from, count); });
  }

 private:
  template <typename Operation>
  void later(const Operation& operation) {
    queue_.add([operation, this] { operation(kernels_); });
  }
  std::optional<engine::cpu::Dropout> kept(const engine::cpu::Dropout* dropout) const {
    if (dropout == nullptr) return std::nullopt;
    engine::cpu::Dropout own = *dropout;
    if (fault_ == LateFault::kSameMasks) own.step_at = nullptr;
    return own;
  }
  std::optional<engine::cpu::AttentionDropout> kept(
      const engine::cpu::AttentionDropout* dropout) const {
    if (dropout == nullptr) return std::nullopt;
    engine::cpu::AttentionDropout own = *dropout;
    own.dropout = *kept(&own.dropout);
    return own;
  }

  engine::Kernels<S>& kernels_;
  Queue& queue_;
  const LateFault fault_;
};

class LateProducts final : public engine::Products {
 public:
  LateProducts(std::unique_ptr<engine::Products> products, Queue& queue)
      : products_(std::move(products)), queue_(queue) {}

  bool fuses() const override { return products_->fuses(); }
  bool run_fused(const engine::FixedProduct& product,
                 const engine::ProductEpilogue& epilogue) override {
    if (!fuses()) return false;
    queue_.add([=, this] { products_->run_fused(product, epilogue); });
    return true;
  }
  void run(const engine::FixedProduct& product) override {
    queue_.add([=, this] { products_->run(product); });
  }
  void run_sliced(engine::FixedProduct product, std::int64_t full) override {
    queue_.add([=, this] { products_->run_sliced(product, full); });
  }
  void run_stacked(float* out, std::int64_t m, std::int64_t n,
                   std::span<const engine::StackedBlock> blocks, int tp) override {
    const std::vector<engine::StackedBlock> kept(blocks.begin(), blocks.end());
    queue_.add([=, this] { products_->run_stacked(out, m, n, kept, tp); });
  }

 private:
  std::unique_ptr<engine::Products> products_;
  Queue& queue_;
};

// Repeats parts of a step as a GPU does, from copies of the operations.
class LateDevice : public engine::Device {
 public:
  explicit LateDevice(LateFault fault = LateFault::kNone) : fault_(fault) {}
  // Fuses in fast numerics, and counts in `fused`, which must outlive it.
  explicit LateDevice(FusedCalls& fused) : fused_(&fused) {}

  std::unique_ptr<engine::DeviceMemory> allocate(MemoryLedger* ledger, MemoryTag tag,
                                                 std::size_t bytes, engine::Reach reach) override {
    return cpu_.allocate(ledger, tag, bytes, reach);
  }
  bool is_host() const override { return false; }
  engine::GemmLibrary product_library(bool canonical) const override {
    return cpu_.product_library(canonical);
  }
  std::unique_ptr<engine::Products> make_products(const engine::SliceShare& share,
                                                  float* scratch) override {
    std::unique_ptr<engine::Products> products = cpu_.make_products(share, scratch);
    if (fused_ != nullptr && !share.canonical) {
      products = std::make_unique<FusingProducts>(std::move(products), cpu_, *fused_);
    }
    return std::make_unique<LateProducts>(std::move(products), queue_);
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    const auto* const begin = static_cast<const std::byte*>(from);
    queue_.add_once([to, kept = std::vector<std::byte>(begin, begin + bytes)] {
      if (!kept.empty()) std::memcpy(to, kept.data(), kept.size());
    });
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    queue_.run();
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  const std::byte* host_view(const void* data, std::size_t bytes) override {
    view_.resize(bytes);
    download(view_.data(), data, bytes);
    return view_.data();
  }
  void synchronize() override { queue_.run(); }
  void before_message() override { queue_.run(); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    queue_.add([=, this] { cpu_.copy(to, from, bytes); });
  }
  void zero(float* values, std::int64_t count) override {
    queue_.add([=, this] { cpu_.zero(values, count); });
  }
  void add(float* to, const float* from, std::int64_t count) override {
    queue_.add([=, this] { cpu_.add(to, from, count); });
  }
  void add_through(std::span<float* const> sums, const float* leaf, std::int64_t count) override {
    const std::vector<float*> kept(sums.begin(), sums.end());
    queue_.add([=, this] { cpu_.add_through(kept, leaf, count); });
  }
  void narrow(void* to, DType type, const float* from, std::int64_t count) override {
    queue_.add([=, this] { cpu_.narrow(to, type, from, count); });
  }
  void add_values(engine::ExactSum& sum, const double* values, std::int64_t count) override {
    queue_.add_once([=, this, &sum] { cpu_.add_values(sum, values, count); });
  }
  void add_squares(engine::ExactSum& sum, const float* values, std::int64_t count) override {
    queue_.add_once([=, this, &sum] { cpu_.add_squares(sum, values, count); });
  }
  void collect() override { queue_.run(); }
  std::int64_t first_non_finite(const float* values, std::int64_t count) override {
    queue_.run();
    return cpu_.first_non_finite(values, count);
  }
  void adamw_step(std::span<float> weights, std::span<const float> gradients, std::span<float> m,
                  std::span<float> v, std::int64_t step, const engine::AdamwOptions& options,
                  const engine::StoredWeights& stored) override {
    queue_.add([=, this] { cpu_.adamw_step(weights, gradients, m, v, step, options, stored); });
  }
  void sgd_step(std::span<float> weights, std::span<const float> gradients,
                std::span<float> velocity, const engine::SgdOptions& options,
                const engine::StoredWeights& stored) override {
    queue_.add([=, this] { cpu_.sgd_step(weights, gradients, velocity, options, stored); });
  }
  void ema_step(std::span<float> average, std::span<const float> weights, float decay) override {
    queue_.add([=, this] { cpu_.ema_step(average, weights, decay); });
  }

  bool repeat(const engine::Repetition& which, const std::function<void()>& body) override {
    engine::Repetition taken = which;
    if (fault_ == LateFault::kSameArguments) taken.varying = {};
    if (fault_ == LateFault::kSameBuffers) taken.part %= 4;  // forward, backward, …
    return parts_.repeat(
        taken, body, [] { return 0U; },
        [&](const std::function<void()>& part) { return queue_.record(part); },
        [&](const Queue::Operations& recorded) { queue_.add(recorded); });
  }
  bool can_repeat() const override { return true; }

 protected:
  Queue& queue() { return queue_; }

 private:
  engine::Kernels<float>& kernels_for(float*) override { return float32_; }
  engine::Kernels<BFloat16>& kernels_for(BFloat16*) override { return bfloat16_; }
  engine::Kernels<Float16>& kernels_for(Float16*) override { return float16_; }

  const LateFault fault_ = LateFault::kNone;
  FusedCalls* fused_ = nullptr;
  engine::CpuDevice cpu_;
  Queue queue_;
  engine::RepeatedParts<Queue::Operations> parts_;
  std::vector<std::byte> view_;
  LateKernels<float> float32_{cpu_.kernels<float>(), queue_, fault_};
  LateKernels<BFloat16> bfloat16_{cpu_.kernels<BFloat16>(), queue_, fault_};
  LateKernels<Float16> float16_{cpu_.kernels<Float16>(), queue_, fault_};
};

}  // namespace nqd::tests
