#include "engine/bench/kernel_runner.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/bench/operands.h"
#include "engine/bench/state_passes.h"
#include "engine/models/transformer/rotary_frequencies.h"
#include "engine/models/transformer/unit_context.h"
#include "planner/layout/activation_buffers.h"

namespace nqd::engine {

using planner::Kernel;
using planner::KernelCall;

class KernelRunner::Impl {
 public:
  virtual ~Impl() = default;
  virtual std::unique_ptr<KernelCase> prepare(const KernelCall& call,
                                              std::int64_t rotate_bytes) = 0;
};

namespace {

template <typename S>
class TypedRunner final : public KernelRunner::Impl {
 public:
  TypedRunner(const planner::Config& config, Device& device)
      : arena_(planner::activation_buffers(config, 0), nullptr, device),
        products_(
            device.make_products(rank_shape(config, {}, {}).slices, Workspace<S>(arena_).slices)),
        context_(make_context(config, device)) {
    const RankShape& s = context_.shape;
    if (s.rotary) {
      const std::int64_t half = s.sequence * s.head_width / 2;
      std::vector<float> table(static_cast<std::size_t>(2 * half));
      cpu::rotary_table(table.data(), table.data() + half, s.sequence,
                        rotary_frequencies(config.model, s.head_width));
      device.upload(context_.workspace.rotary, table.data(), table.size() * sizeof(float));
    }
  }

  std::unique_ptr<KernelCase> prepare(const KernelCall& call, std::int64_t rotate_bytes) override {
    OperandLayout layout;
    KernelAction action = make_action(call, layout);
    return std::make_unique<KernelCase>(layout, rotate_bytes, context_.device, std::move(action));
  }

 private:
  UnitContext<S> make_context(const planner::Config& config, Device& device) {
    const TensorParallel alone;
    const RankShape shape = rank_shape(config, {}, alone);
    const TensorGroup group(alone, shape.slices.canonical, device);
    return {shape, group, Workspace<S>(arena_), device, device.kernels<S>(), *products_};
  }

  KernelAction make_action(const KernelCall& call, OperandLayout& layout) {
    switch (call.kernel) {
      case Kernel::kForwardProduct:
      case Kernel::kSlicedProduct:
      case Kernel::kInputProduct:
      case Kernel::kStackedProduct:
      case Kernel::kWeightProduct:
      case Kernel::kFreshProduct:
        return product(call, layout);
      case Kernel::kAttention:
      case Kernel::kAttentionBackward:
        return attention(call, layout);
      case Kernel::kLayerNorm:
      case Kernel::kRmsNorm:
      case Kernel::kLayerNormBackward:
      case Kernel::kRmsNormBackward:
      case Kernel::kLayerNormGradient:
      case Kernel::kRmsNormGradient:
        return norm(call, layout);
      case Kernel::kSoftmax:
      case Kernel::kSoftmaxBackward:
        return softmax(call, layout);
      case Kernel::kLookup:
      case Kernel::kLookupBackward:
        return lookup(call, layout);
      case Kernel::kSquares:
      case Kernel::kFill:
      case Kernel::kAdd:
      case Kernel::kAdamw:
      case Kernel::kSgd:
        return state_pass(call, layout, context_.device);
      default:
        return row_pass(call, layout);
    }
  }

  KernelAction product(const KernelCall& call, OperandLayout& layout) {
    const std::int64_t m = call.m, n = call.n, k = call.k;
    const std::int64_t a = layout.add<S>(m * k);
    const std::int64_t b = layout.add<S>(k * n);
    switch (call.kernel) {
      case Kernel::kForwardProduct:
      case Kernel::kInputProduct: {
        const bool forward = call.kernel == Kernel::kForwardProduct;
        const std::int64_t c = layout.add<S>(m * n);
        return [=, this](std::byte* copy) {
          const FixedInput right =
              forward ? matrix(at<S>(copy, b), k, Transpose::kYes) : matrix(at<S>(copy, b), n);
          context_.products.run(
              {m, n, k, matrix(at<S>(copy, a), k), right, result(at<S>(copy, c), n)});
        };
      }
      case Kernel::kSlicedProduct: {
        const std::int64_t c = layout.add<float>(m * n);
        return [=, this](std::byte* copy) {
          context_.products.run_sliced(
              {m, n, k, matrix(at<S>(copy, a), k), matrix(at<S>(copy, b), k, Transpose::kYes),
               result(at<float>(copy, c), n)},
              k);
        };
      }
      case Kernel::kStackedProduct: {
        const std::int64_t c = layout.add<float>(m * n);
        return [=, this](std::byte* copy) {
          context_.products.run_stacked(at<float>(copy, c), m, n,
                                        stacked(at<S>(copy, a), at<S>(copy, b), n, k), 1);
        };
      }
      default: {
        const bool accumulate = call.kernel == Kernel::kWeightProduct;
        const std::int64_t c = layout.add<float>(m * n);
        return [=, this](std::byte* copy) {
          context_.products.run({m, n, k, matrix(at<S>(copy, a), m, Transpose::kYes),
                                 matrix(at<S>(copy, b), n), result(at<float>(copy, c), n), 1.0F,
                                 accumulate});
        };
      }
    }
  }

  // As the layers stack them: q | k | v, gate | up, or, over the vocabulary, one.
  StackedBlocks stacked(const S* a, const S* b, std::int64_t n, std::int64_t k) const {
    const RankShape& s = context_.shape;
    StackedBlocks blocks;
    const auto add = [&](std::int64_t begin, std::int64_t width) {
      blocks.add({matrix(a + begin, k), matrix(b + begin * n, n), width});
    };
    if (k == s.qkv() && (s.slices.canonical || s.split_qkv)) {
      add(0, s.queries);
      add(s.queries, s.keys);
      add(s.queries + s.keys, s.keys);
    } else if (k == 2 * s.ffn && s.gates == 2 && s.slices.canonical) {
      add(0, s.ffn);
      add(s.ffn, s.ffn);
    } else {
      add(0, k);
    }
    return blocks;
  }

  KernelAction attention(const KernelCall& call, OperandLayout& layout) {
    const RankShape& s = context_.shape;
    const cpu::AttentionLayout shape =
        cpu::packed_attention(call.m / s.heads, call.n, s.heads, s.kv_heads, call.k, s.causal);
    const std::int64_t rows = shape.batch * shape.sequence;
    const std::int64_t key = s.queries, value = s.queries + s.keys;
    const std::int64_t qkv = layout.add<S>(rows * s.qkv());
    const std::int64_t out = layout.add<S>(rows * s.queries);
    const std::int64_t lse = layout.add<float>(call.m * call.n, 0.1F);
    if (call.kernel == Kernel::kAttention) {
      return [=, this](std::byte* copy) {
        const S* const x = at<S>(copy, qkv);
        context_.kernels.attention_forward(at<S>(copy, out), at<float>(copy, lse), x, x + key,
                                           x + value, shape, nullptr, context_.workspace.attention);
      };
    }
    const std::int64_t d_qkv = layout.add<S>(rows * s.qkv());
    const std::int64_t d_out = layout.add<S>(rows * s.queries);
    return [=, this](std::byte* copy) {
      const S* const x = at<S>(copy, qkv);
      S* const d = at<S>(copy, d_qkv);
      context_.kernels.attention_backward(d, d + key, d + value, at<S>(copy, d_out),
                                          at<S>(copy, out), at<float>(copy, lse), x, x + key,
                                          x + value, shape, nullptr, context_.workspace.attention);
    };
  }

  KernelAction norm(const KernelCall& call, OperandLayout& layout) {
    const bool layer_norm = call.kernel == Kernel::kLayerNorm ||
                            call.kernel == Kernel::kLayerNormBackward ||
                            call.kernel == Kernel::kLayerNormGradient;
    const std::int64_t elements = call.m * call.n;
    const std::int64_t x = layout.add<S>(elements), y = layout.add<S>(elements);
    const std::int64_t mean = layout.add<float>(call.m), rstd = layout.add<float>(call.m);
    const std::int64_t weight = layout.add<S>(call.n), bias = layout.add<S>(call.n);
    const std::int64_t sums = layout.add<float>(2 * call.n);
    const auto of_copy = [=, this](auto&& work) {
      return [=, this](std::byte* copy) {
        UnitContext<S> c = context_;
        c.shape.rows = c.shape.residual_rows = call.m;
        c.shape.hidden = call.n;
        c.shape.layer_norm = layer_norm;
        const NormBuffers<S> kept{at<S>(copy, y), layer_norm ? at<float>(copy, mean) : nullptr,
                                  at<float>(copy, rstd)};
        work(c, kept, copy);
      };
    };
    switch (call.kernel) {
      case Kernel::kLayerNorm:
      case Kernel::kRmsNorm:
        return of_copy([=](UnitContext<S>& c, const NormBuffers<S>& kept, std::byte* copy) {
          c.norm_forward(kept, at<S>(copy, x), at<S>(copy, weight), at<S>(copy, bias));
        });
      case Kernel::kLayerNormGradient:
      case Kernel::kRmsNormGradient:
        return of_copy([=](UnitContext<S>& c, const NormBuffers<S>& kept, std::byte* copy) {
          c.norm_backward_weight(at<float>(copy, sums), at<float>(copy, sums) + call.n, kept.output,
                                 at<S>(copy, x), kept);
        });
      default: {
        const std::int64_t stream = layout.add<S>(elements);
        return of_copy([=](UnitContext<S>& c, const NormBuffers<S>& kept, std::byte* copy) {
          S* const d = at<S>(copy, stream);
          c.norm_backward_input(d, d, kept.output, at<S>(copy, x), at<S>(copy, weight), kept);
        });
      }
    }
  }

  KernelAction softmax(const KernelCall& call, OperandLayout& layout) {
    const RankShape& s = context_.shape;
    const std::int64_t width = s.slices.canonical ? s.slices.of(call.n).width : call.n;
    const cpu::LogitsShape all{call.m, call.n, call.n, 0, width, s.slices.count};
    const std::int64_t logits = layout.add<float>(call.m * call.n);
    const std::int64_t maximum = layout.add<float>(call.m, 0.1F);
    const std::int64_t sums = layout.add<float>(2 * call.m, 0.1F);
    const std::int64_t targets = layout.add_indices(call.m, call.n);
    const bool backward = call.kernel == Kernel::kSoftmaxBackward;
    return [=, this](std::byte* copy) {
      float* const x = at<float>(copy, logits);
      float* const most = at<float>(copy, maximum);
      float* const sum = at<float>(copy, sums);
      const std::int32_t* const target = at<std::int32_t>(copy, targets);
      if (backward) {
        context_.kernels.cross_entropy_backward(x, target, most, sum, 1.0F, all);
      } else {
        context_.kernels.cross_entropy_statistics(most, sum, sum + all.rows, x, target, all);
      }
    };
  }

  KernelAction lookup(const KernelCall& call, OperandLayout& layout) {
    const std::int64_t vocabulary = context_.shape.vocabulary;
    const cpu::VocabularyRange range{0, vocabulary};
    const std::int64_t rows = layout.add<S>(call.m * call.n);
    const std::int64_t tokens = layout.add_indices(call.m, vocabulary);
    if (call.kernel == Kernel::kLookup) {
      const std::int64_t table = layout.add<S>(vocabulary * call.n);
      return [=, this](std::byte* copy) {
        context_.kernels.token_lookup(at<S>(copy, rows), at<std::int32_t>(copy, tokens),
                                      at<S>(copy, table), range, call.m, call.n);
      };
    }
    const std::int64_t gradient = layout.add<float>(vocabulary * call.n);
    return [=, this](std::byte* copy) {
      context_.kernels.token_lookup_backward(at<float>(copy, gradient), at<S>(copy, rows),
                                             at<std::int32_t>(copy, tokens), range, call.m, call.n);
    };
  }

  // Passes over the rows of activations.
  KernelAction row_pass(const KernelCall& call, OperandLayout& layout) {
    const std::int64_t n = call.n;
    const bool gated = call.kernel == Kernel::kSwiglu || call.kernel == Kernel::kSwigluBackward;
    const std::int64_t x = layout.add<S>(call.m * n * (gated ? 2 : 1));
    const std::int64_t y = layout.add<S>(call.m * n * (gated ? 2 : 1));
    const std::int64_t z = layout.add<float>(call.m * n);
    const std::int64_t row = layout.add<S>(n);
    Kernels<S>& kernels = context_.kernels;
    switch (call.kernel) {
      case Kernel::kGelu:
        return [=, &kernels](std::byte* copy) {
          kernels.gelu(at<S>(copy, y), at<S>(copy, x), call.m * n);
        };
      case Kernel::kGeluBackward:
        return [=, &kernels](std::byte* copy) {
          kernels.gelu_backward(at<S>(copy, y), at<S>(copy, y), at<S>(copy, x), call.m * n);
        };
      case Kernel::kSwiglu:
        return [=, &kernels](std::byte* copy) {
          kernels.swiglu(at<S>(copy, y), at<S>(copy, x), call.m, n);
        };
      case Kernel::kSwigluBackward: {
        const std::int64_t d = layout.add<S>(call.m * n);
        return [=, &kernels](std::byte* copy) {
          kernels.swiglu_backward(at<S>(copy, y), at<S>(copy, d), at<S>(copy, x), call.m, n);
        };
      }
      case Kernel::kResidual:
        return [=, &kernels](std::byte* copy) {
          kernels.bias_dropout_residual(at<S>(copy, y), at<float>(copy, z), at<S>(copy, row),
                                        at<S>(copy, x), call.m, n, nullptr, 0);
        };
      case Kernel::kCopy:
        return [=, this](std::byte* copy) {
          context_.device.copy(at<S>(copy, y), at<S>(copy, x),
                               static_cast<std::size_t>(call.m * n) * sizeof(S));
        };
      case Kernel::kDropout:
        return [=, &kernels](std::byte* copy) {
          kernels.apply_dropout(at<S>(copy, y), at<S>(copy, x), cpu::Dropout{.rate = 0.1}, 0,
                                call.m * n);
        };
      case Kernel::kColumnSums: {
        const std::int64_t sums = layout.add<float>(n);
        const std::int64_t blocks = context_.shape.blocks;
        return [=, &kernels](std::byte* copy) {
          kernels.add_column_sums(at<float>(copy, sums), at<S>(copy, x), call.m, n, n,
                                  call.m % blocks == 0 ? blocks : 1);
        };
      }
      case Kernel::kRotary:
        return rotary(call, x);
      case Kernel::kNarrow:
        return [=, &kernels](std::byte* copy) {
          kernels.narrow(at<S>(copy, y), at<float>(copy, z), call.m * n);
        };
      default:
        throw std::logic_error("no pass over rows: " + std::string(planner::name(call.kernel)));
    }
  }

  KernelAction rotary(const KernelCall& call, std::int64_t x) {
    const RankShape& s = context_.shape;
    const std::int64_t table = s.sequence * s.head_width / 2;
    const cpu::RotaryShape shape{call.m, s.sequence, call.n / s.head_width, s.head_width, call.n};
    return [=, this](std::byte* copy) {
      context_.kernels.rotary_forward(at<S>(copy, x), context_.workspace.rotary,
                                      context_.workspace.rotary + table, shape);
    };
  }

  ActivationArena arena_;
  std::unique_ptr<Products> products_;
  UnitContext<S> context_;
};

}  // namespace

KernelRunner::KernelRunner(const planner::Config& config, Device& device) {
  switch (config.train.precision) {
    case planner::Precision::kBFloat16:
      impl_ = std::make_unique<TypedRunner<BFloat16>>(config, device);
      break;
    case planner::Precision::kFloat16:
      impl_ = std::make_unique<TypedRunner<Float16>>(config, device);
      break;
    default:
      impl_ = std::make_unique<TypedRunner<float>>(config, device);
  }
}

KernelRunner::~KernelRunner() = default;

std::unique_ptr<KernelCase> KernelRunner::prepare(const KernelCall& call,
                                                  std::int64_t rotate_bytes) {
  return impl_->prepare(call, rotate_bytes);
}

}  // namespace nqd::engine
