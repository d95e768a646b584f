// The shapes of each family; model_shape() in planner/models/shape.h chooses among them.
#pragma once

#include "planner/models/shape.h"
#include "planner/spec.h"

namespace nqd::planner {

// gpt, llama, moe, vit, timeseries. Pass sizes follow Megatron-LM's kernels: a norm reads and
// writes the residual stream once (backward reads two and writes one), bias, dropout and residual
// are one pass.
ModelShape transformer_shape(const ModelSpec& model, const TrainSpec& train);
ModelShape edsr_shape(const ModelSpec& model);
ModelShape unet_shape(const ModelSpec& model, const TrainSpec& train);
ModelShape custom_shape(const ModelSpec& model);

}  // namespace nqd::planner
