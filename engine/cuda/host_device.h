// Words for what a device runs, so that the same source is code of the device under nvcc and
// plain C++ under a host compiler, where tests run it. NQD_UNROLL stands before a loop whose
// indices must be constants, so that the array behind them stays in registers; NQD_NO_UNROLL before
// one whose copies would take more registers than they save time.
#pragma once

#ifdef __NVCC__
#define NQD_DEVICE __device__
#define NQD_HOST_DEVICE __host__ __device__
#define NQD_UNROLL _Pragma("unroll")
#define NQD_NO_UNROLL _Pragma("unroll 1")
#else
#define NQD_DEVICE
#define NQD_HOST_DEVICE
#define NQD_UNROLL
#define NQD_NO_UNROLL
#endif
