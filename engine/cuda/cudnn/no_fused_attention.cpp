#include "engine/cuda/cudnn/fused_attention.h"

namespace nqd::engine::cuda {

FusedAttentionStatus fused_attention_status() {
  return {false, "", "built without cuDNN (NQD_WITH_CUDNN)"};
}

std::unique_ptr<FusedAttention> make_fused_attention(StreamHandle, AttentionWorkspace) {
  return nullptr;
}

}  // namespace nqd::engine::cuda
