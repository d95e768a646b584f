// Blocks of convolutions over square pictures, counted as matrix products over pixels.
#pragma once

#include <string>

#include "planner/models/shape.h"

namespace nqd::planner {

// Collects the tensors of one block. Sizes are of one sample; every rank holds all of a block, as
// pictures are divided by data parallelism alone.
class ConvolutionBlock {
 public:
  explicit ConvolutionBlock(std::string name) { block_.name = std::move(name); }

  // kernel × kernel with a bias, `pixels` positions of its output.
  void convolution(double kernel, double in, double out, double pixels);
  void linear(double in, double out) { convolution(1, in, out, 1); }
  // Scale and shift of each channel.
  void norm(double channels, double pixels);
  void pass(const char* name, double forward, double backward);
  void attention(double channels, double pixels, Attention kind);
  void save(const char* name, double elements, double element_bytes = 2);
  // The block's input, which recomputation starts from.
  void save_input(double elements);

  BlockShape finish(double output_elements);

 private:
  BlockShape block_;
};

// Adds `count` equal blocks.
void append_block(ModelShape& shape, BlockShape block, std::int64_t count = 1);

}  // namespace nqd::planner
