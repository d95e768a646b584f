#include "tests/engine/models/reference_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/cpu/dropout.h"
#include "planner/models/dimensions.h"

namespace nqd::tests {
namespace {

using engine::cpu::DropoutSite;

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  double& at(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
  double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

class Reference {
 public:
  Reference(const planner::Config& config, const DoubleTensors& weights, const ModelPass& pass,
            std::int64_t step)
      : config_(config),
        model_(config.model),
        d_(planner::dimensions_of(config.model)),
        weights_(weights),
        pass_(pass),
        step_(step),
        rows_(config.train.micro_batch_size * config.model.sequence) {}

  double loss(const Batch& batch) const {
    Matrix x = embed(batch.tokens);
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      const std::string name = "layers." + std::to_string(layer) + ".";
      add_branch(x,
                 linear(attention(norm(x, name + "norm1"), name, layer), name + "attention.proj"),
                 layer, DropoutSite::kAttentionOutput);
      add_branch(
          x, linear(activated(linear(norm(x, name + "norm2"), name + "mlp.fc")), name + "mlp.proj"),
          layer, DropoutSite::kMlpOutput);
    }
    const Matrix logits =
        product(norm(x, "final_norm"), model_.tied_head ? "embedding.token" : "head.weight");
    double sum = 0;
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int32_t target = batch.targets[static_cast<std::size_t>(row)];
      if (target >= 0) sum += log_of_exponentials(logits, row) - logits.at(row, target);
    }
    return sum;
  }

 private:
  const std::vector<double>& tensor(const std::string& name) const { return weights_.at(name); }

  Matrix embed(const std::vector<std::int32_t>& tokens) const {
    Matrix x(rows_, d_.hidden);
    const std::vector<double>& table = tensor("embedding.token");
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t token = tokens[static_cast<std::size_t>(row)];
      for (std::int64_t i = 0; i < d_.hidden; ++i) {
        x.at(row, i) = table[static_cast<std::size_t>(token * d_.hidden + i)];
        if (model_.positions != planner::Positions::kLearned) continue;
        const std::int64_t position = row % model_.sequence;
        x.at(row, i) +=
            tensor("embedding.position")[static_cast<std::size_t>(position * d_.hidden + i)];
      }
    }
    drop_out(x, 0, DropoutSite::kEmbedding);
    return x;
  }

  // Masks of the rows of the residual stream.
  void drop_out(Matrix& x, std::int64_t layer, DropoutSite site) const {
    if (pass_.options.dropout == 0) return;
    engine::cpu::apply_dropout(x.values.data(), x.values.data(), masks(layer, site),
                               pass_.first_sequence * model_.sequence * d_.hidden,
                               static_cast<std::int64_t>(x.values.size()));
  }
  engine::cpu::Dropout masks(std::int64_t layer, DropoutSite site) const {
    return {pass_.options.dropout, static_cast<std::uint64_t>(config_.train.seed), step_, layer,
            site};
  }

  void add_branch(Matrix& x, Matrix branch, std::int64_t layer, DropoutSite site) const {
    drop_out(branch, layer, site);
    for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] += branch.values[i];
  }

  Matrix norm(const Matrix& x, const std::string& name) const {
    Matrix out = x;
    const bool centred = model_.norm == planner::Norm::kLayerNorm;
    const auto n = static_cast<double>(x.columns);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      double mean = 0;
      for (std::int64_t i = 0; i < x.columns && centred; ++i) mean += x.at(row, i) / n;
      double variance = 0;
      for (std::int64_t i = 0; i < x.columns; ++i) {
        variance += (x.at(row, i) - mean) * (x.at(row, i) - mean) / n;
      }
      for (std::int64_t i = 0; i < x.columns; ++i) {
        const auto at = static_cast<std::size_t>(i);
        out.at(row, i) = (x.at(row, i) - mean) / std::sqrt(variance + model_.norm_epsilon) *
                         tensor(name + ".weight")[at];
        if (centred) out.at(row, i) += tensor(name + ".bias")[at];
      }
    }
    return out;
  }

  // x · Wᵀ.
  Matrix product(const Matrix& x, const std::string& name) const {
    const std::vector<double>& w = tensor(name);
    Matrix out(x.rows, static_cast<std::int64_t>(w.size()) / x.columns);
    for (std::int64_t row = 0; row < out.rows; ++row) {
      const auto from = x.values.begin() + row * x.columns;
      for (std::int64_t j = 0; j < out.columns; ++j) {
        out.at(row, j) = std::inner_product(from, from + x.columns, w.begin() + j * x.columns, 0.0);
      }
    }
    return out;
  }
  Matrix linear(const Matrix& x, const std::string& name) const {
    Matrix out = product(x, name + ".weight");
    const auto bias = weights_.find(name + ".bias");
    if (bias == weights_.end()) return out;
    for (std::int64_t row = 0; row < out.rows; ++row) {
      for (std::int64_t j = 0; j < out.columns; ++j) {
        out.at(row, j) += bias->second[static_cast<std::size_t>(j)];
      }
    }
    return out;
  }

  Matrix activated(const Matrix& x) const {
    Matrix out(x.rows, d_.ffn);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      for (std::int64_t j = 0; j < d_.ffn; ++j) {
        const double v = x.at(row, j);
        if (model_.gated_mlp) {
          out.at(row, j) = v / (1 + std::exp(-v)) * x.at(row, d_.ffn + j);
        } else {
          const double u = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
          out.at(row, j) = v / 2 * (1 + std::tanh(u));
        }
      }
    }
    return out;
  }

  // Columns i and i + width / 2 of head `head` of row `row`, turned by its position.
  void rotate(Matrix& x, std::int64_t row, std::int64_t head) const {
    const std::int64_t half = d_.qk_dim / 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(row % model_.sequence) *
                           std::pow(model_.rope_base,
                                    -2.0 * static_cast<double>(i) / static_cast<double>(d_.qk_dim));
      double& a = x.at(row, head * d_.qk_dim + i);
      double& b = x.at(row, head * d_.qk_dim + half + i);
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
  void rotate_all(Matrix& x, std::int64_t heads) const {
    if (model_.positions != planner::Positions::kRotary) return;
    for (std::int64_t row = 0; row < x.rows; ++row) {
      for (std::int64_t head = 0; head < heads; ++head) rotate(x, row, head);
    }
  }

  static Matrix columns_of(const Matrix& x, std::int64_t first, std::int64_t count) {
    Matrix out(x.rows, count);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      for (std::int64_t i = 0; i < count; ++i) out.at(row, i) = x.at(row, first + i);
    }
    return out;
  }

  Matrix attention(const Matrix& x, const std::string& name, std::int64_t layer) const {
    const bool packed = d_.heads == d_.kv_heads;
    const Matrix first = linear(x, name + (packed ? "attention.qkv" : "attention.q"));
    const Matrix rest =
        packed ? columns_of(first, d_.queries, 2 * d_.keys) : linear(x, name + "attention.kv");
    Matrix q = columns_of(first, 0, d_.queries);
    Matrix k = columns_of(rest, 0, d_.keys);
    const Matrix v = columns_of(rest, d_.keys, d_.keys);
    rotate_all(q, d_.heads);
    rotate_all(k, d_.kv_heads);
    Matrix out(x.rows, d_.queries);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      for (std::int64_t head = 0; head < d_.heads; ++head) attend(out, q, k, v, row, head, layer);
    }
    return out;
  }

  // One head of one row.
  void attend(Matrix& out, const Matrix& q, const Matrix& k, const Matrix& v, std::int64_t row,
              std::int64_t head, std::int64_t layer) const {
    const std::int64_t width = d_.qk_dim;
    const std::int64_t kv = head * d_.kv_heads / d_.heads;
    const std::int64_t position = row % model_.sequence;
    const std::int64_t start = row - position;
    std::vector<double> weight(static_cast<std::size_t>(position + 1));
    double sum = 0;
    for (std::int64_t key = 0; key <= position; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        score += q.at(row, head * width + i) * k.at(start + key, kv * width + i);
      }
      weight[static_cast<std::size_t>(key)] = std::exp(score / std::sqrt(width));
      sum += weight[static_cast<std::size_t>(key)];
    }
    for (double& w : weight) w /= sum;
    if (pass_.options.dropout > 0) {
      const std::int64_t sequence = pass_.first_sequence + row / model_.sequence;
      const std::int64_t index =
          ((sequence * d_.heads + head) * model_.sequence + position) * model_.sequence;
      engine::cpu::apply_dropout(weight.data(), weight.data(),
                                 masks(layer, DropoutSite::kAttention), index, position + 1);
    }
    for (std::int64_t key = 0; key <= position; ++key) {
      for (std::int64_t i = 0; i < width; ++i) {
        out.at(row, head * width + i) +=
            weight[static_cast<std::size_t>(key)] * v.at(start + key, kv * width + i);
      }
    }
  }

  static double log_of_exponentials(const Matrix& logits, std::int64_t row) {
    const auto first = logits.values.begin() + row * logits.columns;
    const double largest = *std::max_element(first, first + logits.columns);
    double sum = 0;
    for (std::int64_t j = 0; j < logits.columns; ++j) sum += std::exp(first[j] - largest);
    return largest + std::log(sum);
  }

  const planner::Config& config_;
  const planner::ModelSpec& model_;
  planner::Dimensions d_;
  const DoubleTensors& weights_;
  const ModelPass& pass_;
  std::int64_t step_;
  std::int64_t rows_;
};

}  // namespace

double reference_loss(const planner::Config& config, const DoubleTensors& weights,
                      const Batch& batch, const ModelPass& pass, std::int64_t step) {
  return Reference(config, weights, pass, step).loss(batch);
}

}  // namespace nqd::tests
