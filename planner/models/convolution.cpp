#include "planner/models/convolution.h"

#include <utility>

namespace nqd::planner {

void ConvolutionBlock::convolution(double kernel, double in, double out, double pixels) {
  block_.parameters.replicated += kernel * kernel * in * out + out;
  block_.matmuls.push_back({.rows = pixels, .k = kernel * kernel * in, .n = out});
}

void ConvolutionBlock::norm(double channels, double pixels) {
  block_.parameters.replicated += 2 * channels;
  pass("groupnorm", 2 * channels * pixels, 3 * channels * pixels);
}

void ConvolutionBlock::pass(const char* name, double forward, double backward) {
  block_.pointwise.push_back({name, forward, backward, Split::kNone});
}

// One head over all channels: norm, three projections, scores, a projection and the residual.
void ConvolutionBlock::attention(double channels, double pixels, Attention kind) {
  norm(channels, pixels);
  for (int projection = 0; projection < 4; ++projection) {
    convolution(1, channels, channels, pixels);
  }
  block_.attention = {.heads = 1,
                      .kv_heads = 1,
                      .qk_dim = channels,
                      .v_dim = channels,
                      .rows = pixels,
                      .causal = false};
  pass("shortcut", 3 * channels * pixels, 3 * channels * pixels);
  save("attention.norm_input", channels * pixels);
  save("attention.input", channels * pixels);
  save("attention.qkv", 3 * channels * pixels);
  if (kind == Attention::kMaterialised) {
    block_.saved.push_back({"attention.softmax", pixels * pixels, 2, Split::kNone,
                            SavedTensor::Dropped::kBySelective});
  }
  save("attention.context", channels * pixels);
}

void ConvolutionBlock::save(const char* name, double elements, double element_bytes) {
  block_.saved.push_back(
      {name, elements, element_bytes, Split::kNone, SavedTensor::Dropped::kByFull});
}

void ConvolutionBlock::save_input(double elements) {
  block_.saved.push_back({"input", elements, 2, Split::kNone, SavedTensor::Dropped::kNever});
}

BlockShape ConvolutionBlock::finish(double output_elements) {
  block_.output_elements = output_elements;
  return std::move(block_);
}

void append_block(ModelShape& shape, BlockShape block, std::int64_t count) {
  shape.parameters += static_cast<double>(count) * block.parameters.total();
  shape.kinds.push_back(std::move(block));
  shape.runs.push_back({static_cast<std::int64_t>(shape.kinds.size()) - 1, count});
}

}  // namespace nqd::planner
