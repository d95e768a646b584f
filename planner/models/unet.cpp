#include <algorithm>
#include <utility>
#include <vector>

#include "planner/models/convolution.h"
#include "planner/models/families.h"

namespace nqd::planner {
namespace {

constexpr double kKernel = 3;
constexpr double kTimeWidth = 4;  // of the time embedding ÷ features

// Ho et al. 2020 (arXiv:2006.11239), appendix B: two passes over the levels with skips, residual
// blocks that take the time embedding, attention at the given sizes and in the middle.
class UnetBuilder {
 public:
  UnetBuilder(const ModelSpec& model, const TrainSpec& train)
      : image_(model.image),
        train_(train),
        features_(static_cast<double>(image_.features)),
        size_(image_.size) {
    shape_.known = true;
    shape_.rows = pixels();
  }

  ModelShape build();

 private:
  double pixels() const { return static_cast<double>(size_) * static_cast<double>(size_); }
  double width(std::size_t level) const {
    return features_ * static_cast<double>(image_.multipliers[level]);
  }
  void time_embedding();
  void input();
  void residual(double in, double out);
  void attention(double channels);
  void attention_here(double channels) {
    const auto& at = image_.attention_at;
    if (std::find(at.begin(), at.end(), size_) != at.end()) attention(channels);
  }
  void resample(const char* name, double channels);
  void down(std::size_t level);
  void up(std::size_t level);
  void output();

  const ImageSpec& image_;
  const TrainSpec& train_;
  double features_;
  std::int64_t size_;
  double channels_ = 0;        // of the current map
  std::vector<double> skips_;  // channels of maps that wait for the way up
  ModelShape shape_;
};

void UnetBuilder::time_embedding() {
  ConvolutionBlock block("time");
  block.linear(features_, kTimeWidth * features_);
  block.linear(kTimeWidth * features_, kTimeWidth * features_);
  append_block(shape_, block.finish(kTimeWidth * features_));
}

void UnetBuilder::input() {
  const auto in = static_cast<double>(image_.channels + image_.condition_channels);
  ConvolutionBlock block("input");
  block.convolution(kKernel, in, features_, pixels());
  block.save_input(in * pixels());
  append_block(shape_, block.finish(features_ * pixels()));
  channels_ = features_;
  skips_.push_back(channels_);
}

void UnetBuilder::residual(double in, double out) {
  const double from = in * pixels();
  const double to = out * pixels();
  ConvolutionBlock block("residual");
  block.norm(in, pixels());
  block.convolution(kKernel, in, out, pixels());
  block.linear(kTimeWidth * features_, out);
  block.norm(out, pixels());
  block.convolution(kKernel, out, out, pixels());
  if (in != out) block.convolution(1, in, out, pixels());
  block.pass("swish", 2 * (from + to), 3 * (from + to));
  block.pass("shortcut", 3 * to, 3 * to);
  block.save_input(from);
  block.save("swish1", from);
  block.save("norm2_input", to);
  block.save("swish2", to);
  if (!train_.fused_kernels) block.save("norm_outputs", from + to);
  if (train_.dropout) block.save("mask", to, 1);
  append_block(shape_, block.finish(to));
  channels_ = out;
}

void UnetBuilder::attention(double channels) {
  ConvolutionBlock block("attention");
  block.attention(channels, pixels(), train_.attention);
  append_block(shape_, block.finish(channels * pixels()));
}

// `size_` is that of the output.
void UnetBuilder::resample(const char* name, double channels) {
  ConvolutionBlock block(name);
  block.convolution(kKernel, channels, channels, pixels());
  block.save_input(channels * pixels());
  append_block(shape_, block.finish(channels * pixels()));
}

void UnetBuilder::down(std::size_t level) {
  for (std::int64_t i = 0; i < image_.blocks; ++i) {
    residual(channels_, width(level));
    attention_here(channels_);
    skips_.push_back(channels_);
  }
  if (level + 1 == image_.multipliers.size()) return;
  size_ /= 2;
  resample("down", channels_);
  skips_.push_back(channels_);
}

void UnetBuilder::up(std::size_t level) {
  for (std::int64_t i = 0; i <= image_.blocks; ++i) {
    const double skip = skips_.back();
    skips_.pop_back();
    residual(channels_ + skip, width(level));
    attention_here(channels_);
  }
  if (level == 0) return;
  size_ *= 2;
  resample("up", channels_);
}

void UnetBuilder::output() {
  const auto out = static_cast<double>(image_.channels);
  ConvolutionBlock block("output");
  block.norm(channels_, pixels());
  block.convolution(kKernel, channels_, out, pixels());
  block.pass("swish", 2 * channels_ * pixels(), 3 * channels_ * pixels());
  block.save_input(channels_ * pixels());
  block.save("swish", channels_ * pixels());
  block.save("loss", out * pixels());
  append_block(shape_, block.finish(out * pixels()));
}

ModelShape UnetBuilder::build() {
  const std::size_t levels = image_.multipliers.size();
  time_embedding();
  input();
  for (std::size_t level = 0; level < levels; ++level) down(level);
  residual(channels_, channels_);
  attention(channels_);
  residual(channels_, channels_);
  for (std::size_t level = levels; level-- > 0;) up(level);
  output();
  return std::move(shape_);
}

}  // namespace

ModelShape unet_shape(const ModelSpec& model, const TrainSpec& train) {
  return UnetBuilder(model, train).build();
}

}  // namespace nqd::planner
