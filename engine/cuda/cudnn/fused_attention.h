// Attention by a library's fused kernels, in the place of engine/cuda/kernels/attention.h where
// they can: cuDNN, through its front end, when the build had the headers (NQD_WITH_CUDNN) and the
// library is found when the program runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "engine/cpu/blocked_attention.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

// What attention reads and writes, in device memory, elements of `type`: of
// engine/cpu/blocked_attention.h, without dropout.
struct AttentionOperands {
  DType type = DType::kBFloat16;
  cpu::AttentionLayout layout;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;   // written by forward, read by backward
  float* lse = nullptr;  // likewise
};
struct AttentionGradients {
  const void* d_out = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
};

// One thread at a time calls an object, on the stream that it was made for.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;

  // False: these operands are not for it, and nothing was done. What it has found out about a
  // layout it keeps: the first call of one takes longer. Equal operands give equal bits. Throws
  // NQD4060 where the library fails on what it took.
  virtual bool forward(const AttentionOperands& operands) = 0;
  virtual bool backward(const AttentionOperands& operands, const AttentionGradients& gradients) = 0;

  // "cuDNN 9.12.0"; or, once it left a layout to others, with the first reason why.
  virtual std::string description() const = 0;
};

// Device memory of at least so many bytes, until the next call.
using AttentionWorkspace = std::function<void*(std::int64_t bytes)>;

struct FusedAttentionStatus {
  bool built = false;   // this binary can call the library
  std::string version;  // "cuDNN 9.12.0"; empty when it cannot be used
  std::string reason;   // why not
};
// Never throws.
FusedAttentionStatus fused_attention_status();

// Null where status() has a reason.
std::unique_ptr<FusedAttention> make_fused_attention(StreamHandle stream,
                                                     AttentionWorkspace workspace);

}  // namespace nqd::engine::cuda
