#include "planner/models/convolution.h"
#include "planner/models/families.h"

namespace nqd::planner {
namespace {

constexpr double kKernel = 3;

// Steps of pixel shuffling: one of ×3, else of ×2 until the scale is reached.
std::vector<double> shuffle_steps(std::int64_t scale) {
  if (scale == 3) return {3};
  std::vector<double> steps;
  for (std::int64_t reached = 1; reached < scale; reached *= 2) steps.push_back(2);
  return steps;
}

}  // namespace

// Lim et al. 2017 (arXiv:1707.02921), figures 2 and 3: a convolution, residual blocks without
// norms, a convolution with a skip, pixel shuffling, a convolution. ReLU works in place.
ModelShape edsr_shape(const ModelSpec& model) {
  const ImageSpec& image = model.image;
  const auto features = static_cast<double>(image.features);
  const auto channels = static_cast<double>(image.channels);
  double pixels = static_cast<double>(image.size) * static_cast<double>(image.size);
  ModelShape shape;
  shape.known = true;
  shape.rows = pixels;

  ConvolutionBlock input("input");
  input.convolution(kKernel, channels, features, pixels);
  input.save_input(channels * pixels);
  append_block(shape, input.finish(features * pixels));

  const double map = features * pixels;
  ConvolutionBlock residual("residual");
  residual.convolution(kKernel, features, features, pixels);
  residual.pass("relu", 2 * map, 3 * map);
  residual.convolution(kKernel, features, features, pixels);
  residual.pass("shortcut", 3 * map, 3 * map);
  residual.save_input(map);
  residual.save("relu", map);
  append_block(shape, residual.finish(map), image.blocks);

  ConvolutionBlock body("body");
  body.convolution(kKernel, features, features, pixels);
  body.pass("shortcut", 3 * map, 3 * map);
  body.save_input(map);
  append_block(shape, body.finish(map));

  for (const double step : shuffle_steps(image.scale)) {
    ConvolutionBlock shuffle("shuffle");
    shuffle.convolution(kKernel, features, step * step * features, pixels);
    shuffle.save_input(features * pixels);
    pixels *= step * step;
    shuffle.pass("shuffle", 2 * features * pixels, 2 * features * pixels);
    append_block(shape, shuffle.finish(features * pixels));
  }

  ConvolutionBlock output("output");
  output.convolution(kKernel, features, channels, pixels);
  output.save_input(features * pixels);
  // The difference from the target, whose sign is the loss's gradient.
  output.save("loss", channels * pixels);
  append_block(shape, output.finish(channels * pixels));
  return shape;
}

}  // namespace nqd::planner
