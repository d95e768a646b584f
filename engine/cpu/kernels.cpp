// The float instantiations that the engine links, compiled once with the vectorising options.
#include "engine/cpu/attention.h"
#include "engine/cpu/embedding.h"
#include "engine/cpu/gelu.h"
#include "engine/cpu/layernorm.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/softmax_cross_entropy.h"

namespace nqd::engine::cpu {

template void embedding_forward<float>(float*, const std::int32_t*, const float*, const float*,
                                       std::int64_t, std::int64_t, std::int64_t);
template void embedding_backward<float>(float*, float*, const float*, const std::int32_t*,
                                        std::int64_t, std::int64_t, std::int64_t);
template void layernorm_forward<float>(float*, float*, float*, const float*, const float*,
                                       const float*, std::int64_t, std::int64_t);
template void layernorm_backward<float>(float*, float*, float*, const float*, const float*,
                                        const float*, const float*, const float*, std::int64_t,
                                        std::int64_t);
template void linear_forward<float>(float*, const float*, const float*, const float*, const float*,
                                    std::int64_t, std::int64_t, std::int64_t);
template void linear_backward<float>(float*, float*, float*, const float*, const float*,
                                     const float*, std::int64_t, std::int64_t, std::int64_t);
template void gelu_forward<float>(float*, const float*, std::int64_t);
template void gelu_backward_in_place<float>(float*, const float*, std::int64_t);
template double softmax_cross_entropy_forward<float>(float*, const std::int32_t*, std::int64_t,
                                                     std::int64_t);
template void softmax_cross_entropy_backward<float>(float*, const std::int32_t*, float,
                                                    std::int64_t, std::int64_t);
template void attention_forward<float>(float*, float*, const float*, const AttentionShape&);
template void attention_backward<float>(float*, float*, const float*, const float*, const float*,
                                        const AttentionShape&);

}  // namespace nqd::engine::cpu
