#include "planner/formulas/korthikanti.h"

namespace nqd::planner {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// s·b·h.
double hidden_elements(const GptShape& shape, const GptMesh& mesh) {
  return real(shape.sequence) * real(mesh.micro_batch_size) * real(shape.hidden);
}

}  // namespace

std::string_view name(ActivationVariant variant) {
  switch (variant) {
    case ActivationVariant::kTensor:
      return "tensor";
    case ActivationVariant::kTensorSequence:
      return "tensor+sequence";
    case ActivationVariant::kTensorSelective:
      return "tensor+selective";
    case ActivationVariant::kTensorSequenceSelective:
      return "tensor+sequence+selective";
    case ActivationVariant::kFull:
      return "full";
    case ActivationVariant::kFullSharded:
      return "full+sharded";
  }
  return "?";
}

std::string_view formula(ActivationVariant variant) {
  switch (variant) {
    case ActivationVariant::kTensor:
      return "sbh(10 + 24/t + 5as/(ht))";
    case ActivationVariant::kTensorSequence:
      return "sbh(34/t + 5as/(ht))";
    case ActivationVariant::kTensorSelective:
      return "sbh(10 + 24/t)";
    case ActivationVariant::kTensorSequenceSelective:
      return "34sbh/t";
    case ActivationVariant::kFull:
      return "2sbh";
    case ActivationVariant::kFullSharded:
      return "2sbh/t";
  }
  return "?";
}

double layer_bytes(ActivationVariant variant, const GptShape& shape, const GptMesh& mesh) {
  const double sbh = hidden_elements(shape, mesh);
  const double t = real(mesh.tp);
  const double scores = 5 * real(shape.heads) * real(shape.sequence) / (real(shape.hidden) * t);
  switch (variant) {
    case ActivationVariant::kTensor:
      return sbh * (10 + 24 / t + scores);
    case ActivationVariant::kTensorSequence:
      return sbh * (34 / t + scores);
    case ActivationVariant::kTensorSelective:
      return sbh * (10 + 24 / t);
    case ActivationVariant::kTensorSequenceSelective:
      return sbh * 34 / t;
    case ActivationVariant::kFull:
      return 2 * sbh;
    case ActivationVariant::kFullSharded:
      return 2 * sbh / t;
  }
  return 0;
}

double layers_in_flight(const GptShape& shape, const GptMesh& mesh) {
  if (mesh.vpp <= 1) return real(shape.layers);
  return real(shape.layers) * (1 + real(mesh.pp - 1) / real(mesh.pp * mesh.vpp));
}

double outer_bytes(const GptShape& shape, const GptMesh& mesh) {
  if (shape.vocab == 0) return 0;
  const double part = hidden_elements(shape, mesh) / real(mesh.tp);
  const double masks = part * real(mesh.pp);
  return mesh.pp > 1 ? masks : masks + 4 * part * (1 + real(shape.vocab) / real(shape.hidden));
}

double activation_bytes(ActivationVariant variant, const GptShape& shape, const GptMesh& mesh) {
  return layers_in_flight(shape, mesh) * layer_bytes(variant, shape, mesh) +
         outer_bytes(shape, mesh);
}

}  // namespace nqd::planner
