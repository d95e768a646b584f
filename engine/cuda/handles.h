// The driver's opaque handles, named without a vendor header: a public header that takes a stream
// costs those who include it nothing.
#pragma once

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace nqd::engine::cuda {

// cudaStream_t, cudaEvent_t and cudaGraphExec_t. A null stream is the device's default stream.
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using GraphHandle = CUgraphExec_st*;

}  // namespace nqd::engine::cuda
