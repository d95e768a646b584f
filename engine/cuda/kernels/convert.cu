#include "engine/cuda/kernels/convert.h"

#include "engine/cuda/kernels/bodies/convert.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void narrow_all(StreamHandle stream, S* to, const float* from, std::int64_t n) {
  bodies::narrow_all(Launch(stream), to, from, n);
}
template <typename S>
void widen_all(StreamHandle stream, float* to, const S* from, std::int64_t n) {
  bodies::widen_all(Launch(stream), to, from, n);
}
template <typename S>
void add_all(StreamHandle stream, float* to, const S* from, std::int64_t n) {
  bodies::add_all(Launch(stream), to, from, n);
}
void scale_all(StreamHandle stream, float* x, float factor, std::int64_t n) {
  bodies::scale_all(Launch(stream), x, factor, n);
}
void add_through(StreamHandle stream, std::span<float* const> sums, const float* leaf,
                 std::int64_t n) {
  bodies::add_through(Launch(stream), sums, leaf, n);
}
template <typename S>
void first_non_finite(StreamHandle stream, std::int64_t* index, const S* x, std::int64_t n,
                      std::int64_t* scratch) {
  bodies::first_non_finite(Launch(stream), index, x, n, scratch);
}

template void narrow_all<BFloat16>(StreamHandle, BFloat16*, const float*, std::int64_t);
template void narrow_all<Float16>(StreamHandle, Float16*, const float*, std::int64_t);
template void widen_all<BFloat16>(StreamHandle, float*, const BFloat16*, std::int64_t);
template void widen_all<Float16>(StreamHandle, float*, const Float16*, std::int64_t);

#define NQD_INSTANTIATE(S)                                                               \
  template void add_all<S>(StreamHandle, float*, const S*, std::int64_t);                \
  template void first_non_finite<S>(StreamHandle, std::int64_t*, const S*, std::int64_t, \
                                    std::int64_t*)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda
