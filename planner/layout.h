// The tensors of a model, one record each: the planner budgets them and the engine allocates them
// from the same list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

struct TensorSpec {
  std::string name;                 // "layers.3.attention.qkv.weight"
  std::vector<std::int64_t> shape;  // row-major
  std::int64_t unit = 0;  // gathered together: 0 embeddings, 1 + layer, layers + 1 final norm
  bool decay = false;     // weight decay applies (matrices)
  bool split_tp = false;  // sharded over tp; else replicated
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t extent : shape) n *= extent;
    return n;
  }
};

// Parameters of a GPT-2-like decoder in forward order (linear weights are [out, in]):
//   embedding.token [V,h], embedding.position [s,h];
//   per layer: norm1.{weight,bias} [h], attention.qkv.{weight [3h,h], bias [3h]},
//   attention.proj.{weight [h,h], bias [h]}, norm2.{weight,bias} [h],
//   mlp.fc.{weight [f,h], bias [f]}, mlp.proj.{weight [h,f], bias [h]};
//   final_norm.{weight,bias} [h]; head.weight [V,h] only when the head is not tied.
std::vector<TensorSpec> parameters(const ModelSpec& model);

// Σ elements of the above; GPT-2 124M gives 124,439,808 with V = 50257, s = 1024.
std::int64_t parameter_count(const ModelSpec& model);

// Float32 activations that the CPU engine keeps from forward to backward for one micro-batch, and
// what it needs beside them; every record's elements are allocated once under its tag.
struct ActivationSpec {
  std::string name;
  std::int64_t elements = 0;
  enum class Kind : std::uint8_t {
    kActivation,
    kActivationGradient,
    kLogits,
    kWorkspace
  } kind = Kind::kActivation;
};
std::vector<ActivationSpec> cpu_activations(const ModelSpec& model, std::int64_t micro_batch_size);

}  // namespace nqd::planner
