// Activation bytes of a GPT layer on a GPU, counted tensor by tensor as in Korthikanti et al.,
// "Reducing Activation Recomputation in Large Transformer Models" (arXiv:2205.05198), table 2.
// nqd's own float32 CPU engine has exact records instead: cpu_activations() in planner/layout.h.
#pragma once

#include "planner/spec.h"

namespace nqd::planner {

// Bytes that one micro-batch leaves on one tp rank from forward to backward. s tokens, b sequences,
// h hidden, f ffn_hidden, a heads, t = tp, e bytes an element (2 for bfloat16 and float16).
struct ActivationBytes {
  // One layer without recomputation, softmax materialised, with dropout masks (1 byte an element):
  // s·b·h·(4e+2)/(t with sequence parallel) + s·b·(4e·h + 2e·f)/t + (2e+1)·a·s²·b/t.
  // For e = 2 and f = 4h that is s·b·h·(34 + 5·a·s/h) on one rank.
  double layer = 0;
  // What a layer keeps until its backward: `layer`, or its input alone, e·s·b·h (/t with sequence
  // parallel), with full recomputation.
  double kept_layer = 0;
  double embedding = 0;  // first stage: dropout mask, s·b·h (/t with sequence parallel)
  double head = 0;       // last stage: inputs of final norm and head, 2e·s·b·h (/t likewise)
  double logits = 0;     // last stage: 4·s·b·V/t, float32, V padded to a multiple of t
};

ActivationBytes gpu_activations(const Config& config);

// layers_in_flight · kept, and with full recomputation one whole layer while it is recomputed.
double layer_activation_bytes(const ActivationBytes& bytes, double layers_in_flight,
                              Recompute recompute);

}  // namespace nqd::planner
